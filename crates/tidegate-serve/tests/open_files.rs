//! Alone in its process, since it changes the limit for all of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_serve::{OpenFiles, most_open_files, raise_open_files};

#[test]
fn the_limit_is_raised_as_far_as_it_goes_and_stays_there() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = maximum.unwrap_or(u64::MAX);
    let low = most.min(256);
    setrlimit(Resource::Nofile, Rlimit { current: Some(low), maximum }).expect("lower is allowed");

    assert_eq!(most_open_files(), low);
    assert_eq!(raise_open_files().expect("allowed"), OpenFiles { before: low, now: most });
    assert_eq!(most_open_files(), most);
    assert_eq!(raise_open_files().expect("allowed"), OpenFiles { before: most, now: most });
}
