//! The image that all guests of a kernel start from, and what each gets besides.

use super::cpio::Archive;
use super::modules::LoadedModule;
use super::packages::Kernel;
use super::{LabError, file};
use crate::job::{JOB, Job, MACHINE};
use crate::model::{Cards, Model};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// Microcode that e100's driver loads into some cards, 134 words and three numbers (its
/// `e100_request_firmware`). The real ones are not free, and QEMU's cards ignore them: zeros do.
const MICROCODE: [&str; 3] = ["d101m_ucode.bin", "d101s_ucode.bin", "d102e_ucode.bin"];
const MICROCODE_BYTES: usize = 134 * 4 + 3;

/// An image, and which of its modules each model needs.
#[derive(Debug)]
pub struct Image {
    /// The file.
    pub path: PathBuf,
    modules: Vec<(&'static str, Vec<String>)>,
}

/// What a guest needs that sees the machine's files, under the name [`MACHINE`].
const FOR_MACHINE: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

impl Image {
    /// Makes the image of a kernel, this very program and the modules of these models, or finds one
    /// that has the same contents; `machine`: its guests see the machine's files.
    pub fn make(
        kernel: &Kernel,
        models: &[Model],
        machine: bool,
        cache: &Path,
    ) -> Result<Self, LabError> {
        let own = Path::new("/proc/self/exe");
        let program = fs::read(own).map_err(file("reading", own))?;
        let mut archive = Archive::default();
        for directory in ["dev", "etc", "lib", "lib/firmware", "lib/firmware/e100", "modules"] {
            archive.directory(directory);
        }
        archive.device("dev/console", [5, 1]);
        archive.program("init", &program);
        for name in MICROCODE {
            archive.file(&format!("lib/firmware/e100/{name}"), &[0; MICROCODE_BYTES]);
        }
        let (mut there, mut modules) = (Vec::new(), Vec::new());
        let of_models = models.iter().map(|model| (model.name, model.modules));
        let of_machine = machine.then_some((MACHINE, &FOR_MACHINE[..]));
        for (user, wanted) in of_models.chain(of_machine) {
            let mut files = Vec::new();
            for module in wanted {
                let needed = kernel.modules.with_needed(module).map_err(|error| match user {
                    MACHINE => LabError::Package(format!("file services cannot run: {error}")),
                    _ => error,
                })?;
                for LoadedModule { name, content } in needed {
                    let path = format!("/modules/{name}.ko");
                    if !there.contains(&name) {
                        archive.file(&path, &content);
                        there.push(name);
                    }
                    if !files.contains(&path) {
                        files.push(path);
                    }
                }
            }
            modules.push((user, files));
        }
        let bytes = archive.finish();
        let digest = HEXLOWER.encode(&Sha256::digest(&bytes)[..8]);
        let path = cache.join(format!("image-{}-{digest}.cpio", kernel.release));
        if !path.exists() {
            let part = path.with_extension("part");
            fs::write(&part, &bytes).map_err(file("writing", &part))?;
            fs::rename(&part, &path).map_err(file("writing", &path))?;
        }
        Ok(Self { path, modules })
    }

    /// Modules of both cards, and of the machine's files if the image has them, in the order in
    /// which to load them.
    pub fn modules_of(&self, cards: &Cards) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for user in cards.models().iter().map(|model| model.name).chain([MACHINE]) {
            let mine = self.modules.iter().filter(|(name, _)| *name == user);
            for file in mine.flat_map(|(_, files)| files) {
                if !all.contains(file) {
                    all.push(file.clone());
                }
            }
        }
        all
    }

    /// The image with a job behind it, as a file in this directory.
    pub fn with_job(&self, job: &Job, directory: &Path) -> Result<PathBuf, LabError> {
        let mut archive = Archive::default();
        let text = serde_json::to_string(job).expect("a job is plain data");
        archive.file(JOB, text.as_bytes());
        let mut bytes = fs::read(&self.path).map_err(file("reading", &self.path))?;
        bytes.extend(archive.finish());
        let path = directory.join("initrd");
        fs::write(&path, bytes).map_err(file("writing", &path))?;
        Ok(path)
    }
}
