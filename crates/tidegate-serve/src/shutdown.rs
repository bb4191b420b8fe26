use tokio::sync::watch;

/// The holder of this decides when the service stops. Dropping it is a wish to stop too: nobody else could stop it.
#[derive(Debug)]
pub struct ShutdownHandle {
    wanted: watch::Sender<bool>,
}

/// Tells its holder when to stop. Clones are cheap and may wait in any thread and any runtime.
#[derive(Clone, Debug)]
pub struct Shutdown {
    wanted: watch::Receiver<bool>,
}

impl ShutdownHandle {
    /// One that has not fired.
    pub fn new() -> Self {
        Self { wanted: watch::Sender::new(false) }
    }

    /// Tells all observers, those there will be included, to stop. Once is enough.
    pub fn fire(&self) {
        self.wanted.send_replace(true);
    }

    /// An observer.
    pub fn observer(&self) -> Shutdown {
        Shutdown { wanted: self.wanted.subscribe() }
    }
}

impl Default for ShutdownHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ShutdownHandle {
    fn drop(&mut self) {
        self.fire();
    }
}

impl Shutdown {
    /// Waits until the service shall stop. May be dropped and called again, as `select!` does.
    pub async fn wanted(&mut self) {
        // An error says that the handle is gone, which is a wish to stop.
        let _ = self.wanted.wait_for(|wanted| *wanted).await;
    }

    /// Whether the service shall stop.
    pub fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    #[test]
    fn observers_in_several_runtimes_are_notified() {
        let handle = ShutdownHandle::new();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let mut shutdown = handle.observer();
                thread::spawn(move || {
                    Builder::new_current_thread().build().expect("a runtime").block_on(shutdown.wanted());
                })
            })
            .collect();
        assert!(!handle.observer().is_wanted());
        handle.fire();
        handle.fire();
        for thread in waiting {
            thread.join().expect("no panic");
        }
        assert!(handle.observer().is_wanted(), "who comes late is told too");
    }

    #[tokio::test]
    async fn waiting_can_be_given_up_and_taken_up_again() {
        let handle = ShutdownHandle::new();
        let mut shutdown = handle.observer().clone();
        assert!(timeout(Duration::from_millis(1), shutdown.wanted()).await.is_err());
        handle.fire();
        shutdown.wanted().await;
        shutdown.wanted().await;
    }

    #[tokio::test]
    async fn a_handle_that_is_gone_is_a_wish_to_stop() {
        let mut shutdown = ShutdownHandle::new().observer();
        assert!(shutdown.is_wanted());
        shutdown.wanted().await;
    }
}
