//! Ways to fail, as words and as a set.

use tidegate_policy::endpoints::Cause;
use tidegate_policy::{Failure, FailureSet};

#[test]
fn words_name_ways_to_fail_and_nothing_else() {
    for word in ["connect", "timeout", "reset", "4xx", "5xx", "400", "429", "503", "599"] {
        assert_eq!(word.parse::<Failure>().expect(word).to_string(), word);
    }
    for word in ["", "Timeout", "200", "399", "600", "3xx", "6xx", "5XX", "+503", "0503", "connect "] {
        let error = word.parse::<Failure>().expect_err(word).to_string();
        let expected = format!("must be connect, timeout, reset, 4xx, 5xx or a status from 400 to 599, got {word:?}");
        assert_eq!(error, expected);
    }
}

#[test]
fn a_set_has_what_was_put_into_it() {
    let ways =
        [Failure::Timeout, Failure::Status(429), Failure::Statuses(5), Failure::Status(99), Failure::Status(600)];
    let set: FailureSet = ways.into_iter().collect();
    let statuses: Vec<u16> = (0..1_000).filter(|status| set.has_status(*status)).collect();
    assert_eq!(statuses, [429].into_iter().chain(500..600).collect::<Vec<u16>>());
    let causes = [Cause::Connect, Cause::Timeout, Cause::Broken, Cause::Status].map(|cause| set.has(cause));
    assert_eq!(causes, [false, true, false, false]);
    assert!(FailureSet::technical().has(Cause::Connect) && !FailureSet::technical().has_status(429));
}
