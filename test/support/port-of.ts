import type { AddressInfo, Server } from 'node:net'

/** The port of a server that listens on TCP. */
export function portOf(server: Server): number {
  // Only a server on a socket of the file system has a text for an address.
  return (server.address() as AddressInfo).port
}
