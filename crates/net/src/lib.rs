//! Oncewire on sockets: the tunnel between two sites.
