//! Which paths are edges, and which edges are cycles.

use super::found;

const DECLARED: &str = "mod limits; mod plan;";

#[test]
fn a_cycle_is_printed_with_file_and_line() {
    let limits = "use std::fmt;\n\nuse crate::plan::Plan;\npub struct Limits;";
    let plan = "pub struct Plan(crate::limits::Limits);";
    let found = found(&[("lib.rs", DECLARED), ("limits.rs", limits), ("plan.rs", plan)]);
    let cycle = "crate: 2 modules in a cycle, such as: limits.rs:3 uses plan → plan.rs:1 uses limits";
    assert_eq!(found, [cycle]);
}

#[test]
fn one_way_is_no_cycle() {
    let limits = "use crate::plan::{self, Plan}; fn f(plan: &Plan) { plan::of(plan); self::g() } fn g() {}";
    assert!(found(&[("lib.rs", DECLARED), ("limits.rs", limits), ("plan.rs", "pub struct Plan;")]).is_empty());
}

/// Each way of naming `limits` in `plan` closes the cycle.
#[test]
fn every_way_of_naming_a_module_is_an_edge() {
    let ways = [
        "use crate::limits;",
        "use crate::{limits::Limits, other};",
        "use crate::{other, limits::*};",
        "use super::limits::Limits as L;",
        "pub use super::{limits};",
        "fn f() { crate::limits::f() }",
        "fn f() { super::limits::f::<u8>() }",
        "fn f() -> impl Fn(<crate::limits::Limits as Clone>::X) {}",
        "macro_rules! m { () => { $crate::limits::f() } }",
        "fn f() { println!(\"{}\", crate::limits::f()) }",
        "#[derive(X)] struct S { #[serde(with = \"crate::limits\")] field: u8 }",
        "mod inner { use super::super::limits::Limits; }",
        "mod inner { fn f() { crate::limits::f() } }",
        // By way of the parent, which imports it.
        "use crate::Limits;",
        "use super::Limits;",
        "use super::{Renamed as R};",
        "use crate::globbed;",
        "use super::*; fn f(limits: &Limits) {}",
        "use crate as root; fn f() { root::limits::f() }",
    ];
    let root = "mod limits; mod plan; mod other; pub use limits::{Limits, Limits as Renamed}; pub use other::*;";
    let limits = "use crate::plan::Plan; pub struct Limits; pub fn f() {}";
    let other = "pub use crate::limits::f as globbed;";
    for way in ways {
        let files = [("lib.rs", root), ("limits.rs", limits), ("plan.rs", way), ("other.rs", other)];
        assert_eq!(found(&files).len(), 1, "{way}");
    }
}

/// None of these names `limits` for more than tests, readers and visibility.
#[test]
fn what_is_not_used_is_no_edge() {
    let ways = [
        "pub struct Plan;",
        "pub(in crate::limits) struct Plan;",
        "// crate::limits\n/// [`crate::limits`]\nstruct Plan;",
        "#[cfg(test)] mod tests { use crate::limits::Limits; }",
        "#[cfg(test)] use crate::limits::{Limits};\nstruct Plan;",
        "#[cfg(all(test, unix))] fn f() { crate::limits::f() }",
        "struct S { #[cfg(test)] limits: crate::limits::Limits, other: u8 }",
        "use crate::Own;",
        "fn limits() {} fn f() { limits() }",
        "use std::limits::Limits; fn f() { Limits::f() }",
    ];
    let root = "mod limits; mod plan; pub use limits::Limits; pub struct Own; impl Own { fn f(_: Limits) {} }";
    let limits = "use crate::plan::Plan; pub struct Limits;";
    for way in ways {
        assert_eq!(found(&[("lib.rs", root), ("limits.rs", limits), ("plan.rs", way)]), [""; 0], "{way}");
    }
    let not_for_tests = "#[cfg(not(test))] use crate::limits::Limits; #[cfg(any(test, unix))] use crate::limits::f;";
    assert_eq!(found(&[("lib.rs", root), ("limits.rs", limits), ("plan.rs", not_for_tests)]).len(), 1);
}

#[test]
fn siblings_inside_a_module_depend_one_way_too() {
    let a = "mod one; mod two; pub struct A;";
    let one = "use super::A;\nuse super::two::Two;\npub struct One;";
    let two = "use super::one::One;\npub struct Two;";
    let knot = [("lib.rs", "mod a;"), ("a.rs", a), ("a/one.rs", one), ("a/two.rs", two)];
    let cycle = "crate::a: 2 modules in a cycle, such as: a/one.rs:2 uses two → a/two.rs:1 uses one";
    assert_eq!(found(&knot), [cycle]);
}

/// `a.rs` and `a/` are one unit: it may use what is inside, and what is inside may use what it defines.
#[test]
fn a_parent_and_its_children_use_each_other() {
    let a = "mod one; mod two; use one::One; pub struct A(One); pub enum B {}";
    let one = "use super::A; use crate::a::B; pub struct One;";
    let two = "pub struct Two; fn f(a: super::A) {}";
    assert!(found(&[("lib.rs", "mod a;"), ("a.rs", a), ("a/one.rs", one), ("a/two.rs", two)]).is_empty());
}

/// From the outside, what happens deep inside a module is done by that module.
#[test]
fn an_edge_from_deep_inside_counts_for_the_outermost_module() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod inner;"),
        ("a/inner.rs", "use crate::b::C;"),
        ("b.rs", "pub mod deep; pub use deep::C;"),
        ("b/deep.rs", "pub struct C;\nfn f() { crate::a::g() }"),
    ];
    let cycle = "crate: 2 modules in a cycle, such as: a/inner.rs:1 uses b → b/deep.rs:2 uses a";
    assert_eq!(found(&files), [cycle]);
}

#[test]
fn the_shortest_way_around_is_shown_and_all_modules_counted() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::X;"),
        ("b.rs", "use crate::c::X;"),
        ("c.rs", "use crate::a::X; use crate::b::Y;"),
        ("d.rs", "use crate::a::X;"),
    ];
    let cycle = "crate: 3 modules in a cycle, such as: b.rs:1 uses c → c.rs:1 uses b";
    assert_eq!(found(&files), [cycle]);
}
