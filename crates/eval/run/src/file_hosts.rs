//! Where servers and clients of file services are.

use gigae_eval_services::ServiceError;
use gigae_eval_services::host::Host;
use gigae_eval_session::stage::Stage;

/// The CPU of the answering end, if that is on this machine. A guest's answering end has the first
/// one.
pub(super) fn answering_cpu(stage: &Stage, lab: Option<&Host>) -> Option<usize> {
    stage.answering_cpu.or_else(|| lab.and_then(|_| stage.cpus.last().copied()))
}

/// Where the clients of a link are: in the measuring node, then in all behind the server's.
pub(super) fn clients(stage: &Stage) -> Result<Vec<Host>, ServiceError> {
    match &stage.fabric {
        Some(fabric) => {
            let numbers = std::iter::once(1).chain(3..=fabric.config().nodes);
            Ok(numbers.map(|number| fabric.node(number).into()).collect())
        }
        None => Ok(vec![Host::this(&stage.site)?]),
    }
}
