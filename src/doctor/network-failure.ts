import { describeError } from '../observability/control-logger.ts'
import { type FailurePhase, toUpstreamFailure } from '../upstream/pool/failure.ts'
import { CheckFailure } from './finding.ts'

/** The settings that lead to a server. */
interface ReachedBy {
  /** In a sentence: `the upstream`. */
  readonly server: string
  readonly address: string
  readonly authority: string
}

const EXPIRED = /expired/i

/** @param where host and port, never the whole address: it may hold a password */
export function explainNetworkFailure(
  error: unknown,
  where: string,
  phase: FailurePhase,
  by: ReachedBy,
): CheckFailure {
  if (error instanceof CheckFailure) return error
  if (error instanceof Error && error.name === 'TimeoutError') {
    return new CheckFailure(`${where} does not answer in time`, `check that ${by.server} is not overloaded`)
  }
  const { kind } = toUpstreamFailure(error, phase)
  const text = describeError(error)
  return new CheckFailure(`${where}: ${kind} (${text})`, adviceFor(kind, text, by))
}

function adviceFor(kind: string, text: string, { server, address, authority }: ReachedBy): string {
  switch (kind) {
    case 'dns':
      return `the host name does not resolve: correct ${address}, or the DNS of this machine`
    case 'refused':
      return `nothing listens at this address: start ${server}, or correct ${address}`
    case 'connect_timeout':
      return `check that ${server} runs, and that the network and its policies let the connection pass`
    case 'tls':
      return EXPIRED.test(text)
        ? `renew the certificate of ${server}`
        : `set ${authority} to the authority that issued the certificate of ${server}, use a host name that it contains, and https: exactly where the port expects TLS`
    case 'reset':
      return `${server} closed the connection: check that ${address} has https: exactly where the port expects TLS`
    default:
      return `what listens there does not speak HTTP/1.1: check host and port of ${address}`
  }
}
