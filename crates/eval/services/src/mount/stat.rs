//! Attributes of files that a guest has not seen yet: the scripts, and the figures in their output.
//!
//! find lists a directory and looks at each file: a file system may send attributes with the names.
//! stat looks at each file of another directory by its name, in a random order that is always the
//! same: a file system has to ask for each of them. What bonnie++ looks at, it has made before
//! itself, so the client may know it still.

use super::system::EXPORT;
use super::value::MountValue;

/// The directory with the files, in the mounted one.
const FILES: &str = "stat";

/// Makes the files, on the server.
pub(super) fn make_script(files: u32) -> String {
    format!(
        "set -e\n\
         rm -rf {EXPORT}/{FILES}\n\
         for place in listed named; do\n\
         mkdir -p {EXPORT}/{FILES}/$place\n\
         cd {EXPORT}/{FILES}/$place\n\
         seq -f file-%06g {count} | xargs touch\n\
         done\n",
        count = count(files)
    )
}

/// Removes them.
pub(super) fn remove_script() -> String {
    format!("rm -rf {EXPORT}/{FILES}")
}

/// What is measured, in a few words.
pub(super) fn words(directory: &str) -> Vec<String> {
    let find = format!("find {directory}/{FILES}/listed -type f -printf %s;");
    let stat = format!("cd {directory}/{FILES}/named; xargs -a NAMES stat -c %s");
    vec![find, stat]
}

/// Looks at them in a directory. The programs have run before, so that loading them takes no time.
pub(super) fn script(directory: &str, files: u32) -> String {
    format!(
        "set -e\n\
         seq -f file-%06g {count} | shuf --random-source=/usr/bin/shuf >/run/names\n\
         find /run/names -printf '%s\\n' >/run/found\n\
         echo /run/names | xargs stat -c %s >/run/found\n\
         cd {directory}/{FILES}\n\
         begin=$(date +%s%N)\n\
         find listed -type f -printf '%s\\n' >/run/found\n\
         end=$(date +%s%N)\n\
         echo listed $(wc -l </run/found) $((end - begin))\n\
         cd named\n\
         begin=$(date +%s%N)\n\
         xargs -a /run/names stat -c %s >/run/found\n\
         end=$(date +%s%N)\n\
         echo named $(wc -l </run/found) $((end - begin))\n",
        count = count(files)
    )
}

fn count(files: u32) -> u32 {
    files * 1024
}

/// The figures; `None` if one is missing, or if other files were there.
pub(super) fn read(files: u32, said: &str) -> Option<Vec<MountValue>> {
    let of = |name: &str, what| {
        let line = said.lines().find_map(|line| line.strip_prefix(name))?;
        let (found, nanoseconds) = line.trim().split_once(' ')?;
        let nanoseconds: f64 = nanoseconds.parse().ok().filter(|it| *it > 0.0)?;
        let found: u32 = found.parse().ok().filter(|it| *it == count(files))?;
        let value = f64::from(found) * 1e9 / nanoseconds;
        Some(MountValue { what, unit: "/s", value, range: None, cpu: None })
    };
    Some(vec![of("listed", "stat, listed")?, of("named", "stat, by name")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_files_per_second_and_every_file_must_be_there() {
        let found = read(1, "listed 1024 512000000\nnamed 1024 2048000000\n").unwrap();
        let all: Vec<(&str, f64)> = found.iter().map(|one| (one.what, one.value)).collect();
        assert_eq!(all, [("stat, listed", 2000.0), ("stat, by name", 500.0)]);
        for said in [
            "",
            "listed 1024 512000000\n",
            "listed 1023 512000000\nnamed 1024 2048000000\n",
            "listed 1024 0\nnamed 1024 1\n",
        ] {
            assert_eq!(read(1, said), None, "{said}");
        }
    }

    #[test]
    fn the_scripts_find_what_they_have_made() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().display().to_string();
        let run = |script: String| {
            let script = script.replace(EXPORT, &at).replace("/run/", &format!("{at}/"));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        run(make_script(1));
        let said = run(script(&at, 1));
        assert_eq!(read(1, &said).unwrap().len(), 2, "{said}");
        run(remove_script());
        assert!(!place.path().join(FILES).exists());
    }
}
