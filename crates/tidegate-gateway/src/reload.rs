//! Reloading the configuration while the gateway runs.

use crate::control::{Control, NotChanged};
use crate::gateway::Gateway;

/// Reopens the access log's file, which may have been renamed or removed.
pub(crate) fn reopen_logs(gateway: &Gateway) {
    if let Some(log) = gateway.access_log() {
        log.sink.reopen();
    }
}

/// Reloads the configuration, and reports the result.
pub(crate) async fn reload(gateway: &Gateway, control: &Control) -> Result<(), NotChanged> {
    // Even if the configuration turns out to be invalid: the log may have been rotated.
    reopen_logs(gateway);
    let reloaded = control.reload(gateway).await;
    match &reloaded {
        Ok(()) => {
            gateway.metrics.reloads.inc();
            gateway.log.info("ConfigController", "Reloaded the configuration");
        }
        Err(error) => {
            gateway.metrics.failed_reloads.inc();
            gateway.log.error(
                "ConfigController",
                format_args!("the configuration was not reloaded, nothing has changed: {error}"),
            );
        }
    }
    reloaded
}
