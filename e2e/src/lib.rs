//! The lab: real Kubernetes on hosts made of network namespaces; scenario tests, benches, demo.
