"""Connections to other servers, without their sockets: routes within a cluster, leaf nodes."""
