//! Rules that hold for every file, each with its reason.
//!
//! To see all violations: `TIDY=all cargo test -p tidegate-tidy --test tidy -- --nocapture`, or the name of a rule
//! instead of `all`.

use std::path::Path;

use tidegate_tidy::Repository;
use tidegate_tidy::rules::{self, Violation};

struct Rule {
    name: &'static str,
    because: &'static str,
    /// Where the rule does not apply: the beginning of a path, and what the violation says. At most five.
    except: &'static [(&'static str, &'static str)],
    find: fn(&Repository) -> Vec<Violation>,
}

const RULES: [Rule; 8] = [
    Rule {
        name: "long-files",
        because: "A file of 500 lines is read in one sitting. A longer one has more than one subject: split it.",
        except: &[],
        find: rules::long_files,
    },
    Rule {
        name: "long-functions",
        because: "A function of 70 lines fits one screen, and so does all that a reader has to keep in mind.",
        except: &[],
        find: rules::long_functions,
    },
    Rule {
        name: "long-lines",
        because: "Two files fit side by side, and a diff stays readable. `rustfmt` does not break comments and texts.",
        except: &[],
        find: rules::long_lines,
    },
    Rule {
        name: "words",
        because: "Users read these texts once, often in trouble. Use the words of the glossary in ARCHITECTURE.md.",
        except: &[
            // The glossary names the words it replaces.
            ("ARCHITECTURE.md", "| tell, told"),
            ("ARCHITECTURE.md", "asker, whoever"),
            // The rules name what they forbid.
            ("crates/tidegate-tidy/", ""),
        ],
        find: rules::words_to_avoid,
    },
    Rule {
        name: "mod-files",
        because: "A dozen tabs named `mod.rs` look the same. Write `foo.rs` beside `foo/`.",
        except: &[],
        find: rules::mod_files,
    },
    Rule {
        name: "sleeps-in-tests",
        because: "A sleep is too short on a busy machine and too long on all others. Wait for the thing itself: the \
                  test kit has functions for that, with a bound.",
        except: &[],
        find: rules::sleeps_in_tests,
    },
    Rule {
        name: "unseen-documents",
        because: "A reader can't look up what is not in the repository. Say what it says.",
        except: &[("crates/tidegate-tidy/", "")],
        find: rules::unseen_documents,
    },
    Rule {
        name: "told",
        because: "A name says what a thing is. `Told` says that somebody spoke.",
        except: &[],
        find: rules::told,
    },
];

#[test]
fn every_rule_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = Repository::read(&root).expect("the repository can be read");
    let shown = std::env::var("TIDY").unwrap_or_default();
    let mut wrong = Vec::new();
    for rule in &RULES {
        let found = violations(rule, &repository);
        eprintln!("{}: {}", rule.name, found.len());
        if shown == "all" || shown == rule.name {
            for violation in &found {
                eprintln!("  {violation}");
            }
        }
        wrong.extend(judge(rule, &found));
    }
    assert!(wrong.is_empty(), "\n{}\nTIDY=all and --nocapture show everything.\n", wrong.join("\n"));
}

#[test]
fn no_rule_has_more_than_five_exceptions() {
    for rule in RULES {
        assert!(rule.except.len() <= 5, "{} has {} exceptions", rule.name, rule.except.len());
    }
}

/// A filter that matches no test runs nothing and reports success: a renamed module would end its checks unseen.
#[test]
fn every_filter_of_the_makefile_matches_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = Repository::read(&root).expect("the repository can be read");
    let makefile = std::fs::read_to_string(root.join("Makefile")).expect("there is a Makefile");
    let filters: Vec<&str> = makefile.split_whitespace().filter(|word| word.contains("::")).collect();
    assert!(filters.len() > 5, "{filters:?}");
    let tests: Vec<_> =
        repository.files.iter().filter(|(path, _)| path.starts_with("crates/tidegate/tests/")).collect();
    let is_in = |module: &str, text: &str| {
        let path = module.replace("::", "/");
        let (file, folder) = (format!("/{path}.rs"), format!("/{path}/"));
        tests.iter().any(|(path, tests)| (path.ends_with(&file) || path.contains(&folder)) && tests.text.contains(text))
    };
    for filter in filters {
        let (module, name) = filter.rsplit_once("::").unwrap_or((filter, ""));
        let is_matched = is_in(module, &format!("fn {name}")) || is_in(filter, "#[test]");
        assert!(is_matched, "Makefile: no end-to-end test matches the filter {filter}");
    }
}

fn violations(rule: &Rule, repository: &Repository) -> Vec<Violation> {
    let is_excepted = |violation: &Violation| {
        rule.except.iter().any(|(path, what)| violation.path.starts_with(path) && violation.what.contains(what))
    };
    let mut found = (rule.find)(repository);
    found.retain(|violation| !is_excepted(violation));
    found.sort();
    found
}

fn judge(rule: &Rule, found: &[Violation]) -> Option<String> {
    let Rule { name, because, .. } = rule;
    let list: Vec<String> = found.iter().take(50).map(|violation| format!("  {violation}")).collect();
    let more = if found.len() > 50 { "\n  …" } else { "" };
    (!found.is_empty()).then(|| format!("{name}: {}. {because}\n{}{more}", found.len(), list.join("\n")))
}
