//! The frame of all sources: which object of an input is read, and what becomes of it. A bad object stops no other.

use serde_json::Value;

use super::fields::{FieldError, Object, origin};
use super::services::{self, Program};
use super::write::{Place, Writer};
use super::{Conversion, input};

/// Objects of an input, Services apart, and the writer that takes what becomes of them.
pub(super) struct Input {
    pub(super) services: Vec<Value>,
    pub(super) others: Vec<Value>,
    pub(super) writer: Writer,
}

/// Result of reading an object.
pub(super) enum Outcome {
    /// Its fields were read, and those that were not are to be reported.
    Read,
    /// All of it was reported.
    Reported,
    /// It is another program's.
    Foreign,
}

impl Input {
    pub(super) fn read(text: &str, program: &'static str) -> Self {
        let (objects, errors) = input::objects(text);
        let (services, others) = objects.into_iter().partition(|object: &Value| object["kind"] == "Service");
        Self { services, others, writer: Writer::new(program, errors) }
    }

    /// Converts each object that is no Service. `unconverted`: fields without a counterpart, and the nearest thing to do.
    pub(super) fn each<'a>(
        &'a self,
        unconverted: &[(&str, &str)],
        mut convert: impl FnMut(&Object<'a>, &Place<'a>) -> Result<Outcome, FieldError>,
    ) {
        for object in &self.others {
            let (origin, object) = (origin(object), Object::new(object));
            let place = self.writer.at(origin.as_str());
            match convert(&object, &place) {
                Ok(Outcome::Read) => place.unread(&object, unconverted),
                Ok(Outcome::Reported) => {}
                Ok(Outcome::Foreign) => self.writer.foreign(origin),
                Err(error) => place.refuse(error),
            }
        }
    }

    /// Reports on the Services, after all pools were printed. `classes`: further classes of the program.
    pub(super) fn finish(&self, program: &Program, classes: &[String]) -> Conversion {
        services::look(&self.services, program, classes, &self.writer);
        self.writer.finish()
    }
}
