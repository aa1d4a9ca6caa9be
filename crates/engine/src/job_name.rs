//! Names of jobs, by which sinks tell what they have written from what others have.

use xxhash_rust::xxh3::xxh3_64;

/// A name that no other job has: time, process, and their checksum. Output has it in its names, so a damaged name would
/// have the job write its rows a second time beside those that are there.
pub(crate) fn job_name(nanos: u128, process: u32) -> String {
    with_checksum(&format!("{nanos:x}{process:x}"))
}

fn with_checksum(plain: &str) -> String {
    format!("{plain}x{:08x}", xxh3_64(plain.as_bytes()) as u32)
}

/// Whether it can have been made as one.
pub(crate) fn is_job_name(name: &str) -> bool {
    name.split_once('x').is_some_and(|(plain, _)| with_checksum(plain) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_names_of_jobs_are_none() {
        let name = job_name(1_795_457_125_002_227_000, 31_337);
        assert!(is_job_name(&name), "{name}");
        for at in 0..name.len() {
            let mut others = vec![name[..at].to_string(), name.clone() + &name[at..], name[at..].to_string() + &name];
            let repeated = name[at..].to_string();
            others.push(name.clone());
            others[3].insert_str(at, &repeated);
            for bit in 0..7 {
                let mut bytes = name.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                others.push(String::from_utf8(bytes).unwrap());
            }
            others.iter().for_each(|other| assert!(!is_job_name(other), "{other}"));
        }
    }
}
