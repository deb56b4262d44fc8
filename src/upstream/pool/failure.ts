import { errors } from 'undici'
import type { DenialReason } from '../../domain/denial.ts'
import { describeError } from '../../observability/control-logger.ts'
import type { UPSTREAM_ERROR_KINDS } from '../../observability/metrics/metrics.ts'

/** `assertion`: the gateway could not sign one, so nothing was sent. It is no failure of the upstream. */
export type UpstreamFailureKind = (typeof UPSTREAM_ERROR_KINDS)[number] | 'assertion'

/** The phase in which an exchange failed. The same error code means a different failure in each phase. */
export type FailurePhase = 'connecting' | 'waiting' | 'streaming'

/** A failed exchange with the upstream. Message and cause are for logs only and never reach a client. */
export class UpstreamFailure extends Error {
  readonly kind: UpstreamFailureKind

  constructor(kind: UpstreamFailureKind, cause?: unknown) {
    super(`Upstream failed: ${kind}`, cause === undefined ? undefined : { cause })
    this.name = 'UpstreamFailure'
    this.kind = kind
  }
}

/** Passed to undici to abort an exchange whose response is no longer needed. It never reaches a client. */
export const EXCHANGE_ABORTED = new Error('Exchange aborted: its response is no longer needed')

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
/** undici's code if the upstream closes the connection. Its message is more precise, but not a stable interface. */
const CLOSED_CODE = 'UND_ERR_SOCKET'
const MISMATCH_CODE = 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'

/** @param error from undici or Node; classified by class and code only */
export function toUpstreamFailure(error: unknown, phase: FailurePhase): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  // The `code` of this class is one of the parser's own, or undefined.
  if (error instanceof errors.HTTPParserError) return new UpstreamFailure('protocol', error)
  const code = textProperty(error, 'code')
  const kind = phase === 'connecting' ? kindWhileConnecting(code, error) : classifyCode(code, phase)
  return new UpstreamFailure(kind, error)
}

/** Whether an open connection was lost, in contrast to a protocol error or a failed connection attempt. */
export function isConnectionLoss(error: unknown): boolean {
  const code = textProperty(error, 'code')
  return code === CLOSED_CODE || RESET_CODES.has(code)
}

/** Whether undici counts another number of bytes than the head of the response declares. */
export function isLengthMismatch(error: unknown): boolean {
  return textProperty(error, 'code') === MISMATCH_CODE
}

const TIMEOUT_KINDS: ReadonlySet<UpstreamFailureKind> = new Set(['headers_timeout', 'total_timeout'])
const UNREACHABLE_KINDS: ReadonlySet<UpstreamFailureKind> = new Set([
  ...(['dns', 'refused', 'connect_timeout', 'tls'] as const),
  ...TIMEOUT_KINDS,
])

/** Whether the upstream cannot be reached or does not respond in time, in contrast to an invalid response. */
export function isUnreachable(kind: UpstreamFailureKind): boolean {
  return UNREACHABLE_KINDS.has(kind)
}

/** Whether a connection was there but no response in time: one request alone can cause that. */
export function isTimeout(kind: UpstreamFailureKind): boolean {
  return TIMEOUT_KINDS.has(kind)
}

/** Failures that say nothing of the upstream. `circuit_open` follows from failures that were logged. */
const OWN_KINDS: ReadonlySet<UpstreamFailureKind> = new Set([
  'queue_full',
  'preempted',
  'circuit_open',
  'assertion',
])
const CAUSES_WITHOUT_ERROR: Readonly<Partial<Record<UpstreamFailureKind, string>>> = {
  headers_timeout: 'no response headers within upstream.headersTimeoutMs',
  total_timeout: 'no complete response within upstream.totalTimeoutMs',
  protocol: 'the response is not valid HTTP/1.1, or lacks a length',
}

/** @returns kind and cause for the log; null if the failure is not the upstream's. No error, since each failed request has one. */
export function toLogCause({ kind, cause }: UpstreamFailure): { message: string; code: string } | null {
  if (OWN_KINDS.has(kind)) return null
  const why = cause === undefined ? CAUSES_WITHOUT_ERROR[kind] : describeError(cause)
  const text = why === undefined ? kind : `${kind}: ${why}`
  return { message: text, code: textProperty(cause, 'code') || kind }
}

const DENIALS: Readonly<Partial<Record<UpstreamFailureKind, DenialReason>>> = {
  connect_timeout: 'upstream_timeout',
  headers_timeout: 'upstream_timeout',
  total_timeout: 'upstream_timeout',
  queue_full: 'upstream_queue_full',
  preempted: 'workspace_overloaded',
  circuit_open: 'upstream_unavailable',
  assertion: 'internal_error',
}

export function toDenialReason(kind: UpstreamFailureKind): DenialReason {
  return DENIALS[kind] ?? 'upstream_error'
}

/** Codes that belong neither to the network nor to undici come from OpenSSL, which has many. */
function kindWhileConnecting(code: string, error: unknown): UpstreamFailureKind {
  const syscall = textProperty(error, 'syscall')
  if (syscall === 'getaddrinfo') return 'dns'
  if (code === 'ETIMEDOUT') return 'connect_timeout'
  if (syscall === 'connect') return 'refused'
  const known = KIND_OF_CODE.get(code)
  if (known !== undefined) return known
  return code === '' || code.startsWith('UND_ERR_') || RESET_CODES.has(code) ? 'reset' : 'tls'
}

function classifyCode(code: string, phase: FailurePhase): UpstreamFailureKind {
  // undici also reports this for invalid bytes within the head, if they follow a Content-Length.
  if (code === MISMATCH_CODE) return phase === 'streaming' ? 'truncated' : 'protocol'
  if (code === CLOSED_CODE) return phase === 'streaming' ? 'truncated' : 'reset'
  return KIND_OF_CODE.get(code) ?? 'reset'
}

function textProperty(error: unknown, name: 'code' | 'syscall'): string {
  const value: unknown = error instanceof Error ? Reflect.get(error, name) : undefined
  return typeof value === 'string' ? value : ''
}
