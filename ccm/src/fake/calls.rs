//! Calls that a provider can receive.

#[cfg(doc)]
use crate::provider::{Instances, LoadBalancer};

/// A method of [`LoadBalancer`] or [`Instances`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// [`LoadBalancer::get`].
    Get,
    /// [`LoadBalancer::ensure`].
    Ensure,
    /// [`LoadBalancer::update_nodes`].
    UpdateNodes,
    /// [`LoadBalancer::ensure_deleted`].
    Delete,
    /// [`Instances::exists`].
    Exists,
    /// [`Instances::shutdown`].
    Shutdown,
    /// [`Instances::metadata`].
    Metadata,
}

/// One call, with the name of the Service or Node and, where nodes were given, theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// [`LoadBalancer::get`].
    Get(String),
    /// [`LoadBalancer::ensure`].
    Ensure(String, Vec<String>),
    /// [`LoadBalancer::update_nodes`].
    UpdateNodes(String, Vec<String>),
    /// [`LoadBalancer::ensure_deleted`].
    Delete(String),
    /// [`Instances::exists`].
    Exists(String),
    /// [`Instances::shutdown`].
    Shutdown(String),
    /// [`Instances::metadata`].
    Metadata(String),
}

impl Call {
    /// Returns the method that was called.
    pub fn method(&self) -> Method {
        match self {
            Self::Get(_) => Method::Get,
            Self::Ensure(_, _) => Method::Ensure,
            Self::UpdateNodes(_, _) => Method::UpdateNodes,
            Self::Delete(_) => Method::Delete,
            Self::Exists(_) => Method::Exists,
            Self::Shutdown(_) => Method::Shutdown,
            Self::Metadata(_) => Method::Metadata,
        }
    }

    /// Name of the Service or Node that the call was about.
    pub fn subject(&self) -> &str {
        match self {
            Self::Get(name)
            | Self::Ensure(name, _)
            | Self::UpdateNodes(name, _)
            | Self::Delete(name)
            | Self::Exists(name)
            | Self::Shutdown(name)
            | Self::Metadata(name) => name,
        }
    }
}
