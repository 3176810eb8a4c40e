"""The sockets of links to other servers: routes, gateways, leaf nodes."""
