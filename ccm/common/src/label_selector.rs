//! Label selectors as objects have them. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use windlass_ipam::{Requirement, Selector};

/// Reason that a label selector cannot be read. The API server checks selectors by the rules of the custom resource definition; this
/// error reports an object that an older definition accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// No operator of this name exists.
    #[error("label {key:?} has the operator {operator:?}: write In, NotIn, Exists or DoesNotExist")]
    Operator {
        /// Name of the label.
        key: String,
        /// The operator.
        operator: String,
    },
    /// The operator needs values.
    #[error("label {key:?} has the operator {operator} and no values: name at least one")]
    NoValues {
        /// Name of the label.
        key: String,
        /// The operator.
        operator: String,
    },
    /// The operator takes no values.
    #[error("label {key:?} has the operator {operator} and values: leave the values out")]
    Values {
        /// Name of the label.
        key: String,
        /// The operator.
        operator: String,
    },
}

/// A label selector as the allocator has it.
///
/// # Errors
/// The first of its conditions that means nothing.
pub fn selector(selector: &LabelSelector) -> Result<Selector, SelectorError> {
    let expressions = selector.match_expressions.iter().flatten();
    Ok(Selector {
        labels: selector.match_labels.clone().unwrap_or_default(),
        requirements: expressions.map(requirement).collect::<Result<_, _>>()?,
    })
}

fn requirement(condition: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement { key, operator, values } = condition.clone();
    let values = values.unwrap_or_default();
    match (operator.as_str(), values.is_empty()) {
        ("In" | "NotIn", true) => Err(SelectorError::NoValues { key, operator }),
        ("In", false) => Ok(Requirement::In(key, values.into_iter().collect())),
        ("NotIn", false) => Ok(Requirement::NotIn(key, values.into_iter().collect())),
        ("Exists" | "DoesNotExist", false) => Err(SelectorError::Values { key, operator }),
        ("Exists", true) => Ok(Requirement::Exists(key)),
        ("DoesNotExist", true) => Ok(Requirement::DoesNotExist(key)),
        (_, _) => Err(SelectorError::Operator { key, operator }),
    }
}
