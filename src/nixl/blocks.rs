//! The devices of NIXL's plugin GUSLI, which has to know all of them when it is made: one for each file of the job, numbered from 1.

use std::os::unix::fs::FileTypeExt;

/// What the library reads of a configuration at most, and of a path.
const LONGEST_CONFIG: usize = 1023;
const LONGEST_PATH: usize = 99;

/// The files of a job, by their numbers less 1.
#[derive(Default)]
pub struct Blocks {
    files: Vec<String>,
}

impl Blocks {
    /// Devices for files that are there.
    pub fn new(files: &[String]) -> Result<Self, String> {
        if files.is_empty() {
            return Err("nixl_plugin=GUSLI has to know its devices beforehand: name them with filename=".to_owned());
        }
        let mut blocks = Self::default();
        for file in files {
            if file.len() > LONGEST_PATH || file.contains([' ', '#', '\n']) {
                return Err(format!(
                    "filename={file}: nixl_plugin=GUSLI takes a path of {LONGEST_PATH} bytes at most, with no blank and no '#'"
                ));
            }
            if !std::path::Path::new(file).exists() {
                return Err(format!(
                    "filename={file} is not there yet, and nixl_plugin=GUSLI would delete what it makes: leave out create_on_open"
                ));
            }
            if !blocks.files.contains(file) {
                blocks.files.push(file.clone());
            }
        }
        Ok(blocks)
    }

    /// The numbers of all.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.files.len() as u64
    }

    pub fn number_of(&self, file: &str) -> Option<u64> {
        self.files.iter().position(|known| known == file).map(|at| at as u64 + 1)
    }

    /// The configuration, as the library reads it.
    pub fn config(&self, is_direct: bool) -> Result<String, String> {
        let how = if is_direct { 'D' } else { 'N' };
        let mut text = "# gpuio\nversion=1\n".to_owned();
        for (number, file) in self.numbers().zip(&self.files) {
            let is_device = std::fs::metadata(file).is_ok_and(|about| about.file_type().is_block_device());
            text += &format!("{number} {} W {how} {file} sec\n", if is_device { 'K' } else { 'F' });
        }
        if text.len() > LONGEST_CONFIG {
            return Err(format!("nixl_plugin=GUSLI takes {LONGEST_CONFIG} bytes of names: give fewer files, or shorter paths"));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_number_and_one_line() {
        let blocks = Blocks::new(&["/dev/null".to_owned(), "/dev/zero".to_owned(), "/dev/null".to_owned()]).unwrap();
        assert_eq!(blocks.config(true).unwrap(), "# gpuio\nversion=1\n1 F W D /dev/null sec\n2 F W D /dev/zero sec\n");
        assert_eq!((blocks.number_of("/dev/zero"), blocks.number_of("/dev/full")), (Some(2), None));
        assert!(Blocks::new(&[]).is_err() && Blocks::new(&["/none".to_owned()]).is_err() && Blocks::new(&["/a b".to_owned()]).is_err());
    }
}
