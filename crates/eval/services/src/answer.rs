//! The answering end of file services: one server at a time, from the closed list of services, in a
//! directory that the machine's owner names.

use crate::by_name;
use crate::error::ServiceError;
use crate::host::Host;
use crate::server::{FileServer, Rights};
use crate::serving::ServingEnd;
use crate::store::{FileStore, Place};
use gigae_eval_measure::site::Site;
use gigae_eval_model::file_job::{FileJob, room};
use gigae_eval_model::service::OWN;
use gigae_eval_session::control::answering::failed;
use gigae_eval_session::control::{
    ControlError, FilesReply, FilesRequest, FilesServing, Reply, Request, Session,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the disk and the server are looked at while clients transfer.
const WATCH: Duration = Duration::from_millis(200);

/// Time for the rest of a request whose beginning is there.
const REST: Duration = Duration::from_secs(4);

/// What the server's owner allows.
#[derive(Clone, Copy, Debug)]
pub struct FilesPolicy<'a> {
    /// The directory for the files, if there is one.
    pub directory: Option<&'a Path>,
    /// When the session has to end.
    pub until: Option<Instant>,
}

impl FilesPolicy<'_> {
    /// Where the files may be; or why no server is started here.
    fn place(self, site: &Site) -> Result<Place, String> {
        let host = site.ip;
        let Some(directory) = self.directory else {
            return Err(format!(
                "its owner allows no file services; start 'gigae serve --allow-files DIR' on {host}"
            ));
        };
        Place::shared(directory).map_err(|error| {
            let directory = directory.display();
            format!("cannot use '{directory}': {error}; start 'gigae serve --allow-files' on {host} again")
        })
    }
}

/// Serves files until the client has done with it; they stay in `kept` for the session's next
/// server. The reply is the one that ends it; `None` when the server is to end.
pub fn answer(
    session: &mut Session,
    site: &Site,
    policy: FilesPolicy<'_>,
    kept: &mut Option<FileStore>,
    job: &FileJob,
    interrupted: &AtomicBool,
) -> Result<Option<Reply>, ControlError> {
    let place = match policy.place(site).and_then(|place| job.check().map(|()| place)) {
        Ok(place) => place,
        Err(why) => return Ok(Some(failed(&why))),
    };
    if let Err(error) = prepare(&place, kept, job, interrupted) {
        return Ok(reply_to(&error));
    }
    let Some(store) = kept else { return Ok(None) };
    let (mut server, serving) = match start(site, store, job, interrupted) {
        Ok(started) => started,
        Err(error) => return Ok(reply_to(&error)),
    };
    session.send(&Reply::Files(FilesReply::Serving(Box::new(serving))))?;
    let ended = loop {
        let request = match watch(session, &place, policy.until, interrupted)? {
            Watched::Request(request) => request,
            // A client that has filled the disk is not asked to go on.
            Watched::Refused(reason) => {
                session.send(&Reply::Over { reason: reason.clone() })?;
                return Err(ControlError::Over(reason));
            }
            Watched::Interrupted => return Ok(None),
        };
        let reply = match request {
            Request::Files(request) => step(&mut server, store, request),
            Request::Cancel => break Reply::Cancelled,
            _ => break failed("a file server is running; end it first"),
        };
        match reply {
            Ok(reply) => session.send(&Reply::Files(reply))?,
            Err(error) => match reply_to(&error) {
                Some(reply) => session.send(&reply)?,
                None => return Ok(None),
            },
        }
    };
    drop(server);
    // The next server needs the room.
    match store.clear_uploads() {
        Ok(()) => Ok(Some(ended)),
        Err(error) => Ok(reply_to(&error)),
    }
}

/// `None`: the server is to end.
fn reply_to(error: &ServiceError) -> Option<Reply> {
    (!error.is_interruption()).then(|| failed(&error.to_string()))
}

/// Makes the files that are not there yet.
fn prepare(
    place: &Place,
    kept: &mut Option<FileStore>,
    job: &FileJob,
    interrupted: &AtomicBool,
) -> Result<(), ServiceError> {
    let there = |file: &(u64, u32)| kept.as_ref().is_some_and(|store| store.made(*file).is_some());
    let (present, new): (Vec<_>, Vec<_>) = job.files.iter().copied().partition(there);
    // What an earlier job has made stays.
    let kept_files = kept.as_ref().map_or_else(Vec::new, FileStore::sizes);
    let all = FileJob { files: [kept_files, new].concat(), ..job.clone() };
    all.check().map_err(ServiceError::Unavailable)?;
    let present = present.iter().map(|&(size, files)| room(size, files)).sum();
    place.has_room(job.bytes().saturating_sub(present))?;
    if kept.is_none() {
        *kept = Some(FileStore::at(place.clone(), 0)?);
    }
    let Some(store) = kept else { return Ok(()) };
    for &(size, files) in &job.files {
        if interrupted.load(Ordering::Relaxed) {
            return Err(gigae_eval_session::programs::ProgramError::Interrupted.into());
        }
        store.create(size, files)?;
    }
    Ok(())
}

fn start<'a>(
    site: &Site,
    store: &'a FileStore,
    job: &FileJob,
    interrupted: &AtomicBool,
) -> Result<(FileServer<'a>, FilesServing), ServiceError> {
    let unavailable = |why: String| ServiceError::Unavailable(why);
    let service = by_name(&job.service).ok_or_else(|| unavailable("unknown service".into()))?;
    let (title, program) = (service.spec().title, service.spec().programs[0].0);
    if let Some(why) = service.spec().needs_root {
        return Err(unavailable(format!(
            "{title}: {program} {why}, and 'gigae serve' has given up root; leave out --peer for it"
        )));
    }
    if job.service == OWN && job.sent.is_some() {
        return Err(unavailable(format!(
            "{title}: any node of the network could write here, since its sessions are not authenticated; leave out directions = [\"put\"]"
        )));
    }
    let host = Host::this(site)?;
    let rights = Rights { limit: None, writable: job.sent.is_some(), fenced: true };
    let server = FileServer::start(service, (&host, site.cpu), store, rights, interrupted)?;
    let hashes = job.files.iter().filter_map(|file| Some(store.made(*file)?.hash())).collect();
    let (version, file_system) = server.about();
    let at = server.at.clone();
    let (ip, mac, port, password) = (at.ip, at.mac, at.port, at.password);
    Ok((server, FilesServing { ip, mac, port, password, version, file_system, hashes }))
}

/// What came while the client was waited for.
enum Watched {
    Request(Request),
    /// The session has to end, for this reason.
    Refused(String),
    Interrupted,
}

/// Waits for a request, and looks after time and disk, also between two requests that follow at
/// once: a client can send more than it has said.
fn watch(
    session: &mut Session,
    place: &Place,
    until: Option<Instant>,
    interrupted: &AtomicBool,
) -> Result<Watched, ControlError> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(Watched::Interrupted);
        }
        if until.is_some_and(|until| Instant::now() > until) {
            let why = "its owner allows no more time for a client (--max-duration)";
            return Ok(Watched::Refused(why.into()));
        }
        if let Err(error) = place.has_room(0) {
            return Ok(Watched::Refused(format!("clients have filled the disk: {error}")));
        }
        if session.readable(WATCH)? {
            return session.receive(REST).map(Watched::Request);
        }
    }
}

fn step(
    server: &mut FileServer<'_>,
    store: &FileStore,
    request: FilesRequest,
) -> Result<FilesReply, ServiceError> {
    let unavailable = |why: &str| ServiceError::Unavailable(why.into());
    match request {
        FilesRequest::Serve(_) => Err(unavailable("a file server is running; end it first")),
        FilesRequest::Begin => server.begin().map(|()| FilesReply::Begun),
        FilesRequest::End => server.end().map(|spent| FilesReply::Spent(Box::new(spent))),
        FilesRequest::Compare { sent, file } => {
            // The name of a file and not a way to another one.
            if sent.is_empty() || sent.contains('/') || [".", ".."].contains(&sent.as_str()) {
                return Err(unavailable("a file that is sent has a name without '/'"));
            }
            let file = store.find(&file).ok_or_else(|| unavailable("there is no such file"))?;
            server.is_same(&sent, file).map(FilesReply::Compared)
        }
    }
}
