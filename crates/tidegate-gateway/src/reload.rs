//! Reading the configuration anew while the gateway runs.

use std::sync::Arc;

use crate::control::NotChanged;
use crate::gateway::Gateway;

/// Opens the access log's file anew, which has been renamed or removed.
pub(crate) fn reopen_logs(gateway: &Gateway) {
    if let Some(log) = gateway.access_log() {
        log.sink.reopen();
    }
}

/// Reads the configuration anew, and says so.
pub(crate) async fn reload(gateway: &Arc<Gateway>) -> Result<(), NotChanged> {
    // Whatever becomes of the file: whoever has moved the log away waits for it.
    reopen_logs(gateway);
    let reloaded = gateway.control.reload(gateway).await;
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
