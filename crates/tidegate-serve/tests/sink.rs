//! What a sink promises: callers never wait, what is accepted is written, and what is lost is counted.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tidegate_serve::{Reopening, Sink};

/// Far more than anything here takes, unless it is broken.
const LONG: Duration = Duration::from_secs(20);

/// A directory of the test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-sink-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An output that takes so many bytes, then fails once, again and again.
#[derive(Clone)]
struct Failing {
    written: Arc<Mutex<Vec<u8>>>,
    takes: usize,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.takes == 0 {
            self.takes = usize::MAX;
            return Err(ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.takes);
        self.takes -= taken;
        self.written.lock().expect("no panic").extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_was_accepted_is_written_when_the_last_handle_goes() {
    let folder = Folder::new("drop");
    let sink = Sink::file(folder.file("log"), 100_000).expect("a sink");
    thread::scope(|scope| {
        for thread in 0..4 {
            let sink = sink.clone();
            scope.spawn(move || (0..10_000).for_each(|line| sink.send(format!("{thread} {line}"))));
        }
    });
    assert_eq!((sink.dropped(), sink.errors()), (0, 0));
    drop(sink);
    let text = fs::read_to_string(folder.file("log")).expect("text");
    assert_eq!(text.lines().count(), 40_000);
    for thread in ["0 ", "1 ", "2 ", "3 "] {
        let lines = text.lines().filter_map(|line| line.strip_prefix(thread)?.parse::<u32>().ok());
        assert!(lines.eq(0..10_000), "the lines of one sender stay in order");
    }
}

#[test]
fn a_quiet_sink_writes_a_line_at_once() {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let sink = Sink::stream(writer, 10).expect("a sink");
    sink.send("hello");
    let mut line = [0; 6];
    reader.read_exact(&mut line).expect("a line");
    assert_eq!(&line, b"hello\n");
}

#[test]
fn a_file_is_appended_to() {
    let folder = Folder::new("append");
    fs::write(folder.file("log"), "before\n").expect("a file");
    Sink::file(folder.file("log"), 10).expect("a sink").send("after\n");
    assert_eq!(fs::read_to_string(folder.file("log")).expect("text"), "before\nafter\n");
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_once() {
    assert!(Sink::file("/nonexistent/folder/log", 10).is_err());
}

#[test]
fn a_full_pipe_blocks_nobody_and_every_line_is_written_or_counted() {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let sink = Arc::new(Sink::stream(writer, 1_000).expect("a sink"));
    let ((sent, is_sent), sender) = (mpsc::channel(), Arc::clone(&sink));
    thread::spawn(move || {
        for _ in 0..100_000 {
            sender.send([b'x'; 99]);
        }
        sent.send(())
    });
    is_sent.recv_timeout(LONG).expect("nobody reads the pipe, and no send waits for that");
    let dropped = sink.dropped();
    assert!(dropped > 90_000, "a pipe, a batch under way and the buffer hold a few thousand lines: {dropped}");
    assert!(!sink.flush(Duration::from_millis(10)), "nobody reads");
    assert!(!sink.flush_and_close(Duration::from_millis(10)), "nobody reads");
    sink.send("too late");
    assert_eq!(sink.dropped(), dropped + 1);

    let reading = thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        text
    });
    assert!(sink.flush_and_close(LONG));
    let text = reading.join().expect("no panic");
    assert!(text.lines().all(|line| line.len() == 99));
    assert_eq!(text.lines().count() as u64 + dropped, 100_000);
}

#[test]
fn dropping_a_blocked_sink_after_closing_it_does_not_wait_again() {
    let blocked = || {
        let (reader, writer) = io::pipe().expect("a pipe");
        let sink = Sink::stream(writer, 10_000).expect("a sink");
        for _ in 0..2_000 {
            sink.send([b'x'; 99]);
        }
        assert!(!sink.flush_and_close(Duration::from_millis(1)));
        (reader, sink)
    };
    // Each would wait for two seconds: twenty of them for longer than anybody waits here.
    let (readers, sinks): (Vec<_>, Vec<_>) = (0..20).map(|_| blocked()).unzip();
    let (dropped, are_dropped) = mpsc::channel();
    thread::spawn(move || {
        drop(sinks);
        dropped.send(())
    });
    assert!(are_dropped.recv_timeout(LONG).is_ok());
    drop(readers);
}

#[test]
fn a_reader_that_has_gone_is_counted_and_the_writer_goes_on() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let sink = Sink::stream(writer, 10).expect("a sink");
    for round in 1..=3 {
        sink.send("one\n");
        sink.send("two");
        assert!(sink.flush(LONG));
        assert_eq!(sink.dropped(), 2 * round);
    }
    assert!(sink.errors() >= 3);
    assert!(sink.last_write_error().expect("an error").starts_with("writing: "));
}

#[test]
fn a_line_torn_by_a_full_disk_is_not_glued_to_the_next() {
    let written = Arc::default();
    let sink = Sink::stream(Failing { written: Arc::clone(&written), takes: 6 }, 10).expect("a sink");
    sink.send("first\nsecond\nthird"); // one call, so one batch
    assert!(sink.flush(LONG));
    assert_eq!((sink.errors(), sink.dropped()), (1, 2));
    sink.send("fourth");
    assert!(sink.flush(LONG));
    assert_eq!(*written.lock().expect("no panic"), b"first\nfourth\n", "the end of a line is no tear");

    let written = Arc::default();
    let sink = Sink::stream(Failing { written: Arc::clone(&written), takes: 3 }, 10).expect("a sink");
    sink.send("first");
    assert!(sink.flush(LONG));
    sink.send("second");
    assert!(sink.flush(LONG));
    assert_eq!(*written.lock().expect("no panic"), b"fir\nsecond\n");
}

#[test]
fn a_non_blocking_output_is_waited_for() {
    struct Reluctant(Arc<Mutex<Vec<u8>>>, u32);
    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            match self.1 % 3 {
                0 => self.0.lock().expect("no panic").write(&bytes[..1]),
                1 => Err(ErrorKind::WouldBlock.into()),
                _ => Err(ErrorKind::Interrupted.into()),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let written = Arc::default();
    let sink = Sink::stream(Reluctant(Arc::clone(&written), 0), 10).expect("a sink");
    sink.send("hello");
    assert!(sink.flush_and_close(LONG));
    assert_eq!((sink.errors(), written.lock().expect("no panic").as_slice()), (0, &b"hello\n"[..]));
}

#[test]
fn after_a_rotation_lines_go_to_the_new_file() {
    let folder = Folder::new("rotate");
    let sink = Sink::file(folder.file("log"), 10).expect("a sink");
    sink.send("old");
    fs::rename(folder.file("log"), folder.file("log.1")).expect("the file moves");
    sink.reopen();
    assert!(sink.flush(LONG));
    sink.send("new");
    assert!(sink.flush(LONG));
    assert_eq!(fs::read_to_string(folder.file("log.1")).expect("text"), "old\n");
    assert_eq!(fs::read_to_string(folder.file("log")).expect("text"), "new\n");
    assert_eq!(sink.errors(), 0);
}

#[test]
fn a_reopening_that_fails_keeps_the_old_file_and_says_so() {
    let folder = Folder::new("reopen-fails");
    let sink = Sink::file(folder.file("log"), 10).expect("a sink");
    fs::rename(folder.file("log"), folder.file("log.1")).expect("the file moves");
    fs::create_dir(folder.file("log")).expect("a folder");
    sink.reopen();
    sink.send("still here");
    assert!(sink.flush(LONG));
    assert_eq!(sink.errors(), 1);
    assert_eq!((sink.write_errors(), sink.last_write_error()), (0, None));
    let Reopening { failed: 1, error: Some(error) } = sink.reopening() else { panic!("{:?}", sink.reopening()) };
    assert!(error.starts_with(&format!("{}: ", folder.file("log").display())), "{error}");
    assert_eq!(fs::read_to_string(folder.file("log.1")).expect("text"), "still here\n");
    // The next one succeeds: the failure is counted, and is not a reason for anything any more.
    fs::remove_dir(folder.file("log")).expect("it is empty");
    sink.reopen();
    assert!(sink.flush(LONG));
    assert_eq!((sink.errors(), sink.reopening()), (1, Reopening { failed: 1, error: None }));
}

/// The text of a file.
fn text(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The names in a folder.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(&folder.0).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_full_file_makes_room_and_so_do_those_before_it() {
    let folder = Folder::new("rotating");
    let sink = Sink::rotating(folder.file("log"), 100, 10, 2).expect("a sink");
    for line in ["a123", "b123", "c12345678", "d123", "e1234", "f12345678"] {
        sink.send(line);
    }
    assert!(sink.flush(LONG));
    // "a123\nb123\n" was the first, and is more than is kept.
    assert_eq!(names(&folder), ["log", "log.1", "log.2"]);
    assert_eq!(text(&folder, "log.2"), "d123\n");
    assert_eq!(text(&folder, "log.1"), "e1234\n");
    assert_eq!(text(&folder, "log"), "f12345678\n");
    assert_eq!((sink.errors(), sink.dropped()), (0, 0));
}

#[test]
fn a_file_is_full_to_the_byte_before_it_makes_room() {
    let folder = Folder::new("rotating-exact");
    let sink = Sink::rotating(folder.file("log"), 100_000, 1_000, 1_000).expect("a sink");
    let lines: Vec<String> = (0..20_000).map(|number| format!("{number:09}")).collect();
    for (number, line) in lines.iter().enumerate() {
        sink.send(line);
        // Batches of all sizes.
        assert!(number % 777 != 0 || sink.flush(LONG));
    }
    assert!(sink.flush_and_close(LONG));
    assert_eq!(names(&folder).len(), 200, "of a hundred lines each");
    assert_eq!(fs::metadata(folder.file("log")).expect("a file").len(), 1_000);
    let oldest_first = (1..200).rev().map(|number| format!("log.{number}")).chain(["log".to_owned()]);
    let all: String = oldest_first.map(|name| text(&folder, &name)).collect();
    assert!(all.lines().eq(&lines), "no line is lost, torn or out of order");
    assert_eq!((sink.errors(), sink.dropped()), (0, 0));
}

#[test]
fn what_is_in_the_file_already_counts() {
    let folder = Folder::new("rotating-start");
    fs::write(folder.file("log"), "before\n").expect("a file");
    Sink::rotating(folder.file("log"), 10, 10, 3).expect("a sink").send("after");
    assert_eq!((text(&folder, "log.1"), text(&folder, "log")), ("before\n".to_owned(), "after\n".to_owned()));
}

#[test]
fn a_line_that_no_file_could_take_has_one_of_its_own() {
    let folder = Folder::new("rotating-long");
    let sink = Sink::rotating(folder.file("log"), 10, 10, 5).expect("a sink");
    for line in ["short", "much longer than ten", "short"] {
        sink.send(line);
    }
    drop(sink);
    assert_eq!(text(&folder, "log.2"), "short\n");
    assert_eq!(text(&folder, "log.1"), "much longer than ten\n");
    assert_eq!(text(&folder, "log"), "short\n");
}

#[test]
fn none_are_kept_if_none_shall_be() {
    let folder = Folder::new("rotating-none");
    let sink = Sink::rotating(folder.file("log"), 10, 10, 0).expect("a sink");
    for line in ["first", "second"] {
        sink.send(line);
    }
    drop(sink);
    assert_eq!((names(&folder), text(&folder, "log")), (vec!["log".to_owned()], "second\n".to_owned()));
}

#[test]
fn a_rotation_that_fails_loses_nothing_and_says_so() {
    let folder = Folder::new("rotating-fails");
    fs::create_dir_all(folder.file("log.1").join("in the way")).expect("a folder");
    let sink = Sink::rotating(folder.file("log"), 10, 10, 1).expect("a sink");
    for line in ["first", "second", "third"] {
        sink.send(line);
        assert!(sink.flush(LONG));
    }
    assert_eq!((sink.errors(), sink.dropped()), (2, 0));
    let error = sink.last_write_error().expect("an error");
    assert!(error.starts_with("rotating ") && error.contains("log: "), "{error}");
    assert_eq!(text(&folder, "log"), "first\nsecond\nthird\n");
    fs::remove_dir_all(folder.file("log.1")).expect("it goes");
    sink.send("fourth");
    assert!(sink.flush(LONG));
    assert_eq!(text(&folder, "log.1"), "first\nsecond\nthird\n", "it tries again");
    assert_eq!(text(&folder, "log"), "fourth\n");
}

#[test]
fn a_file_that_rotates_can_be_reopened_and_its_new_size_counts() {
    let folder = Folder::new("rotating-reopen");
    let sink = Sink::rotating(folder.file("log"), 10, 10, 3).expect("a sink");
    sink.send("12345678");
    assert!(sink.flush(LONG));
    fs::rename(folder.file("log"), folder.file("elsewhere")).expect("the file moves");
    sink.reopen();
    assert!(sink.flush(LONG));
    for line in ["12345678", "new"] {
        sink.send(line);
    }
    assert!(sink.flush(LONG));
    assert_eq!(names(&folder), ["elsewhere", "log", "log.1"]);
    assert_eq!((text(&folder, "log.1"), text(&folder, "log")), ("12345678\n".to_owned(), "new\n".to_owned()));
    assert_eq!(sink.errors(), 0);
}
