//! VIPs on a device with the virtual router's MAC address.

mod devices;
mod moves;
mod scene;
mod strangers;
mod victim;
