//! Which programs and libraries are there.

use crate::error::ServiceError;
use crate::{access, libnfs};
use gigae_eval_model::plan::Plan;
use gigae_eval_model::service as model;
use std::fs;
use std::path::{Path, PathBuf};

/// Where servers are, beside the directories of `PATH`.
const SYSTEM_PROGRAMS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Directories of libraries; their subdirectories are those of architectures.
const LIBRARIES: [&str; 2] = ["/usr/lib", "/usr/lib64"];

/// The path of a program, if it is installed. gigae is the program that runs.
pub(crate) fn find(program: &str) -> Option<String> {
    if program == model::OWN {
        return Some(std::env::current_exe().ok()?.to_string_lossy().into_owned());
    }
    let path = gigae_host::path::find(program, &SYSTEM_PROGRAMS)?;
    Some(path.to_string_lossy().into_owned())
}

/// A library by its path beneath a directory of libraries, if it is installed.
fn find_library(file: &str) -> Option<PathBuf> {
    LIBRARIES.iter().find_map(|place| beneath(Path::new(place), file))
}

fn beneath(place: &Path, file: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let places = std::iter::once(place.to_owned()).chain(entries.map(|entry| entry.path()));
    places.map(|place| place.join(file)).find(|file| file.is_file())
}

/// Refuses to measure services whose programs are missing. The error names the packages.
pub fn installed(plan: &Plan) -> Result<(), ServiceError> {
    let of_files = plan.files.iter().map(|files| &files.service[..]);
    let names = of_files.chain(plan.access.iter().map(|access| &access.service[..]));
    let names = names.chain(plan.metadata.iter().map(|metadata| &metadata.service[..]));
    let (mut programs, mut libraries) = (Vec::new(), Vec::new());
    if !plan.access.is_empty() {
        programs.extend(access::PROGRAMS);
        libraries.extend(access::LIBRARIES);
    }
    if !plan.metadata.is_empty() {
        libraries.push(libnfs::LIBRARY);
    }
    are_installed(names, (&programs, &libraries))
}

/// Refuses services of these names whose programs are missing, as [`installed`] does.
pub fn services_installed<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), ServiceError> {
    are_installed(names, (&[], &[]))
}

/// Programs or libraries with their packages.
type Needed = [(&'static str, &'static str)];

fn are_installed<'a>(
    names: impl Iterator<Item = &'a str>,
    (programs, libraries): (&Needed, &Needed),
) -> Result<(), ServiceError> {
    let (mut programs, mut libraries) = (programs.to_vec(), libraries.to_vec());
    for spec in names.filter_map(model::by_name) {
        programs.extend(spec.programs);
        libraries.extend(spec.libraries);
    }
    let programs = programs.into_iter().filter(|(program, _)| find(program).is_none());
    let libraries = libraries.into_iter().filter(|(file, _)| find_library(file).is_none());
    missing(programs.chain(libraries))
}

/// An error that names programs and their packages, if there are any.
fn missing(all: impl Iterator<Item = (&'static str, &'static str)>) -> Result<(), ServiceError> {
    let (mut programs, mut packages): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (program, package) in all {
        for (name, names) in [(program, &mut programs), (package, &mut packages)] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if programs.is_empty() {
        return Ok(());
    }
    Err(ServiceError::Missing { programs: programs.join(", "), packages: packages.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_without_services_needs_no_program() {
        assert!(installed(&Plan::load("quick").unwrap()).is_ok());
    }

    #[test]
    fn what_is_missing_is_named_once_with_its_packages() {
        assert!(missing([].into_iter()).is_ok());
        let all = [("smbd", "samba"), ("pdbedit", "samba"), ("smbd", "samba")];
        let error = missing(all.into_iter()).unwrap_err().to_string();
        assert!(error.contains("here: smbd, pdbedit; try 'apt install samba'"), "{error}");
    }

    #[test]
    fn gigae_is_this_program() {
        let own = find(model::OWN).map(PathBuf::from);
        assert_eq!(own, std::env::current_exe().ok());
        assert_eq!(find("no-such-program-here"), None);
    }

    #[test]
    fn a_library_is_beneath_a_directory_of_libraries_or_of_an_architecture() {
        let place = tempfile::tempdir().unwrap();
        let library = "qemu/block-nfs.so";
        assert_eq!(beneath(place.path(), library), None);
        for parent in ["some-linux", "."] {
            let file = place.path().join(parent).join(library);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            assert!(beneath(place.path(), library).is_some_and(|found| found.exists()));
            fs::remove_file(file).unwrap();
        }
        assert!(find_library("no/such-library.so").is_none());
    }
}
