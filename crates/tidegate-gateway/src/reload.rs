//! Reading the configuration anew while the gateway runs.

use crate::control::{Control, NotChanged};
use crate::gateway::Gateway;

/// Opens the access log's file anew, which has been renamed or removed.
pub(crate) fn reopen_logs(gateway: &Gateway) {
    if let Some(log) = gateway.access_log() {
        log.sink.reopen();
    }
}

/// Reads the configuration anew, and reports what came of it.
pub(crate) async fn reload(gateway: &Gateway, control: &Control) -> Result<(), NotChanged> {
    // Whatever becomes of the file: the log may have been moved away.
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
