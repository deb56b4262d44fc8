import { errors } from 'undici'
import type { DenialReason } from '../domain/verdict.ts'
import type { UPSTREAM_ERROR_KINDS } from '../observability/metrics.ts'

export type UpstreamFailureKind = (typeof UPSTREAM_ERROR_KINDS)[number]

/** Where an exchange stood when it failed: the same reset means other things at other times. */
export type FailurePhase = 'connecting' | 'waiting' | 'streaming'

/** The upstream failed us. Its message is for logs: no client ever sees it, nor its cause. */
export class UpstreamFailure extends Error {
  readonly kind: UpstreamFailureKind

  constructor(kind: UpstreamFailureKind, cause?: unknown) {
    super(`Upstream failed: ${kind}`, cause === undefined ? undefined : { cause })
    this.name = 'UpstreamFailure'
    this.kind = kind
  }
}

const KIND_OF_CODE: ReadonlyMap<string, UpstreamFailureKind> = new Map([
  ['ENOTFOUND', 'dns'],
  ['ECONNREFUSED', 'refused'],
  ['EHOSTUNREACH', 'refused'],
  ['ENETUNREACH', 'refused'],
  ['EADDRNOTAVAIL', 'refused'],
  ['UND_ERR_CONNECT_TIMEOUT', 'connect_timeout'],
  ['UND_ERR_HEADERS_OVERFLOW', 'protocol'],
])
const RESET_CODES: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED'])
/** What undici calls it when the other side closes; its message says more, but a message is no interface. */
const CLOSED_CODE = 'UND_ERR_SOCKET'
const MISMATCH_CODE = 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'

/** @param error whatever undici or Node reported; told apart by class and code only */
export function toUpstreamFailure(error: unknown, phase: FailurePhase): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  // Told by its class: in undici 7 its `code` is always undefined.
  const kind = error instanceof errors.HTTPParserError ? 'protocol' : kindOf(codeOf(error), phase)
  return new UpstreamFailure(kind, error)
}

/** Whether the connection went away, as against one that spoke nonsense or was never made. */
export function isConnectionLoss(error: unknown): boolean {
  const code = codeOf(error)
  return code === CLOSED_CODE || RESET_CODES.has(code)
}

export function denialReasonOf(kind: UpstreamFailureKind): DenialReason {
  switch (kind) {
    case 'connect_timeout':
    case 'headers_timeout':
    case 'total_timeout':
      return 'upstream_timeout'
    case 'queue_full':
    case 'circuit_open':
      return 'upstream_unavailable'
    default:
      return 'upstream_error'
  }
}

function kindOf(code: string, phase: FailurePhase): UpstreamFailureKind {
  if (code.startsWith('EAI_')) return 'dns'
  if (code === 'ETIMEDOUT') return phase === 'connecting' ? 'connect_timeout' : 'reset'
  if (RESET_CODES.has(code)) return 'reset'
  // undici says this of any nonsense that comes after a Content-Length, be it still within the head.
  if (code === MISMATCH_CODE) return phase === 'streaming' ? 'truncated' : 'protocol'
  if (code === CLOSED_CODE) return phase === 'streaming' ? 'truncated' : 'reset'
  const known = KIND_OF_CODE.get(code)
  if (known !== undefined) return known
  // Of the many codes of OpenSSL and X.509 none is a network's: what else fails while connecting is the handshake.
  return phase === 'connecting' && code !== 'UND_ERR_DESTROYED' ? 'tls' : 'reset'
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
