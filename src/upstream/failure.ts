import { errors } from 'undici'
import type { DenialReason } from '../domain/denial.ts'
import type { UPSTREAM_ERROR_KINDS } from '../observability/metrics/metrics.ts'

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

/** Aborts an exchange with undici whose answer is no longer needed. No client sees it. */
export const UNWANTED = new Error('The answer is no longer wanted')

const KIND_OF_CODE: ReadonlyMap<string, UpstreamFailureKind> = new Map([
  ['ENOTFOUND', 'dns'],
  ['EAI_AGAIN', 'dns'],
  ['ECONNREFUSED', 'refused'],
  ['EHOSTUNREACH', 'refused'],
  ['ENETUNREACH', 'refused'],
  ['UND_ERR_CONNECT_TIMEOUT', 'connect_timeout'],
  ['UND_ERR_HEADERS_OVERFLOW', 'protocol'],
])
const RESET_CODES: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED'])
/** What undici calls it when the other side closes; its message says more, but a message is no interface. */
const CLOSED_CODE = 'UND_ERR_SOCKET'
const MISMATCH_CODE = 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'

/** @param error from undici or Node; classified by class and code only */
export function toUpstreamFailure(error: unknown, phase: FailurePhase): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  // Classified by its class: in undici 7 its `code` is always undefined.
  if (error instanceof errors.HTTPParserError) return new UpstreamFailure('protocol', error)
  const code = textProperty(error, 'code')
  const kind = phase === 'connecting' ? kindWhileConnecting(code, error) : kindOf(code, phase)
  return new UpstreamFailure(kind, error)
}

/** Whether the connection went away, as against one that spoke nonsense or was never made. */
export function isConnectionLoss(error: unknown): boolean {
  const code = textProperty(error, 'code')
  return code === CLOSED_CODE || RESET_CODES.has(code)
}

const ABSENCE: ReadonlySet<UpstreamFailureKind> = new Set([
  'dns',
  'refused',
  'connect_timeout',
  'tls',
  'headers_timeout',
  'total_timeout',
])

/** Whether the upstream is not there or does not answer, as against one that answers badly. */
export function tellsOfAbsence(kind: UpstreamFailureKind): boolean {
  return ABSENCE.has(kind)
}

export function denialReasonOf(kind: UpstreamFailureKind): DenialReason {
  switch (kind) {
    case 'connect_timeout':
    case 'headers_timeout':
    case 'total_timeout':
      return 'upstream_timeout'
    case 'queue_full':
      return 'upstream_queue_full'
    case 'preempted':
      return 'workspace_overloaded'
    case 'circuit_open':
      return 'upstream_unavailable'
    default:
      return 'upstream_error'
  }
}

/** What no network and no undici says comes from OpenSSL, whose codes are many. */
function kindWhileConnecting(code: string, error: unknown): UpstreamFailureKind {
  const syscall = textProperty(error, 'syscall')
  if (syscall === 'getaddrinfo') return 'dns'
  if (code === 'ETIMEDOUT') return 'connect_timeout'
  if (syscall === 'connect') return 'refused'
  const known = KIND_OF_CODE.get(code)
  if (known !== undefined) return known
  return code === '' || code.startsWith('UND_ERR_') || RESET_CODES.has(code) ? 'reset' : 'tls'
}

function kindOf(code: string, phase: FailurePhase): UpstreamFailureKind {
  // undici says this of any nonsense that comes after a Content-Length, be it still within the head.
  if (code === MISMATCH_CODE) return phase === 'streaming' ? 'truncated' : 'protocol'
  if (code === CLOSED_CODE) return phase === 'streaming' ? 'truncated' : 'reset'
  return KIND_OF_CODE.get(code) ?? 'reset'
}

function textProperty(error: unknown, name: 'code' | 'syscall'): string {
  const value: unknown = error instanceof Error ? Reflect.get(error, name) : undefined
  return typeof value === 'string' ? value : ''
}
