//! Which programs are there.

use crate::error::ServiceError;
use gigae_eval_model::plan::FilesPlan;
use gigae_eval_model::service as model;

/// Where servers are, beside the directories of `PATH`.
const SYSTEM_PROGRAMS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The path of a program, if it is installed. gigae is the program that runs.
pub(crate) fn find(program: &str) -> Option<String> {
    if program == model::OWN {
        return Some(std::env::current_exe().ok()?.to_string_lossy().into_owned());
    }
    let path = gigae_host::path::find(program, &SYSTEM_PROGRAMS)?;
    Some(path.to_string_lossy().into_owned())
}

/// Refuses to measure services whose programs are missing. The error names the packages.
pub fn installed(files: &[FilesPlan]) -> Result<(), ServiceError> {
    let mut missing: Vec<(&str, &str)> = Vec::new();
    for spec in files.iter().filter_map(|files| model::by_name(&files.service)) {
        for &one in spec.programs {
            if find(one.0).is_none() && !missing.contains(&one) {
                missing.push(one);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let words = |of: fn(&(&'static str, &'static str)) -> &'static str, between: &str| {
        let mut words: Vec<&str> = Vec::new();
        for word in missing.iter().map(of) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(between)
    };
    Err(ServiceError::Missing {
        programs: words(|one| one.0, ", "),
        packages: words(|one| one.1, " "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::plan::Plan;

    #[test]
    fn a_plan_without_services_needs_no_program() {
        assert!(installed(&Plan::load("quick").unwrap().files).is_ok());
    }

    #[test]
    fn gigae_is_this_program() {
        let own = find(model::OWN).map(std::path::PathBuf::from);
        assert_eq!(own, std::env::current_exe().ok());
        assert_eq!(find("no-such-program-here"), None);
    }
}
