import { gunzipSync } from 'node:zlib'
import type { DenialReason } from '../../src/domain/denial.ts'
import { denied } from '../../src/domain/denial.ts'
import { createErrorResponse } from '../../src/gateway/responses.ts'
import { type AnswerPlan, CANARY } from './answer-plans.ts'
import { type AnswerHead, type Reading, readResponse, valuesOf } from './strict-answer.ts'

/** What a client received in one exchange, up to the complete response or the end of the connection. */
export interface Seen {
  readonly bytes: Buffer
  /** How the connection ended, if it did. */
  readonly ended: 'open' | 'closed' | 'reset'
  /** Whether the upstream exceeded its plan by so much that the gateway may have timed out. */
  readonly late?: boolean
}

const FROM_UPSTREAM = [
  'content-type',
  'content-encoding',
  'etag',
  'last-modified',
  'vary',
  'age',
  'link',
  'retry-after',
]
const OURS = ['cache-control', 'connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding']
const ALLOWED = new Set([...FROM_UPSTREAM, ...OURS, 'x-content-type-options', 'x-request-id'])
const NEVER_PASSED = new Set([401, 403, 404, 407])

/**
 * Checks what a client received: the complete upstream response and no other, or a denial of the gateway, or a connection
 * that visibly ended before the response did.
 * @returns the violation, or null
 */
export function breachOf(plan: AnswerPlan, seen: Seen): string | null {
  const given = finalAnswer(Buffer.from(plan.bytes, 'latin1'))
  const got = readResponse(seen.bytes)
  if (got.kind === 'broken') return `the client cannot parse it: ${got.why}`
  if (got.head === null) return 'the client got no response'
  const headBreach = breachOfHead(got.head, given)
  if (headBreach !== null) return headBreach
  if (got.kind === 'whole') {
    if (got.end !== seen.bytes.length) return 'bytes follow the response'
    return breachOfWhole(got.head, got.body, given, seen)
  }
  if (got.kind === 'until_close' && seen.ended === 'closed') {
    return breachOfWhole(got.head, got.body, given, seen)
  }
  return breachOfPart(got, given, plan, seen)
}

/** A complete response to the client is the upstream's complete response with the same body, or a denial of the gateway. */
function breachOfWhole(head: AnswerHead, body: Buffer, given: Reading, seen: Seen): string | null {
  if (head.status < 300 || head.status === 304) {
    if (given.kind !== 'whole') return `an upstream response that is ${given.kind} looks complete`
    if (given.head.status !== head.status) return `${given.head.status} became ${head.status}`
    return given.body.equals(body) ? null : 'the body differs from that of the upstream'
  }
  return breachOfRefusal(head, body.toString('utf8'), given, seen)
}

function breachOfRefusal(head: AnswerHead, body: string, given: Reading, seen: Seen): string | null {
  if (body.includes(CANARY)) return 'a denial reveals internals'
  const { status } = head
  if (status === 502 && isOurs(body, 'upstream_error')) return null
  if (status === 503 && isOurs(body, 'upstream_unavailable')) {
    return given.head?.status === 503 ? null : '503 that the upstream did not send'
  }
  if (status === 504 && isOurs(body, 'upstream_timeout')) {
    return given.head === null || seen.late === true ? null : '504 although the upstream sent a head'
  }
  if (status === 404 && isOurs(body, 'upstream_not_found')) {
    return given.head?.status === 404 ? null : '404 that the upstream did not send'
  }
  if (status < 400 || status > 499 || NEVER_PASSED.has(status)) return `${status} is no denial of the gateway`
  return given.head?.status === status
    ? breachOfRejection(body, given)
    : `${status} that the upstream did not send`
}

/** A 4xx passes the upstream's code and text, or has the gateway's own. */
function breachOfRejection(body: string, given: Reading): string | null {
  const json = JSON.parse(body) as Record<string, unknown>
  if (Object.keys(json).join() !== 'code,error') return 'a rejection with more than code and error'
  if (json['code'] === 'upstream_rejected') return null
  const upstream = parse(decoded(given))
  const same = upstream?.['code'] === json['code'] && upstream?.['error'] === json['error']
  return same && given.kind === 'whole' ? null : 'a rejection that the upstream did not send'
}

/** A truncated response may be the beginning of the upstream's, if that was not complete either. */
function breachOfPart(got: Reading, given: Reading, plan: AnswerPlan, seen: Seen): string | null {
  if (seen.ended === 'open') return 'the response never ends'
  if (got.head !== null && got.head.status >= 300) return 'a denial of the gateway is truncated'
  if (!given.body.subarray(0, got.body.length).equals(got.body))
    return 'the beginning differs from that of the upstream'
  const excused = plan.after === 'reset' || seen.late === true
  return given.kind === 'whole' && !excused ? 'a complete response is truncated' : null
}

function breachOfHead(head: AnswerHead, given: Reading): string | null {
  const alien = head.fields.find(([name]) => !ALLOWED.has(name.toLowerCase()))
  if (alien !== undefined) return `a field outside the allow-list: ${alien[0]}`
  const passes = head.status < 300 || head.status === 304
  for (const name of passes ? FROM_UPSTREAM : []) {
    const values = valuesOf(head.fields, name)
    const givenValues = given.head === null ? [] : valuesOf(given.head.fields, name)
    if (values.length > 0 && values.join() !== givenValues.join(', '))
      return `${name} differs from the upstream's`
  }
  return null
}

/** The response after the interim ones. */
export function finalAnswer(bytes: Buffer): Reading {
  let from = 0
  for (;;) {
    const read = readResponse(bytes, from)
    if (read.kind !== 'whole' || read.head.status >= 200) return read
    from = read.end
  }
}

function isOurs(body: string, reason: DenialReason): boolean {
  return body === createErrorResponse(denied(reason)).body
}

function decoded(given: Reading): string {
  const coding = given.head === null ? [] : valuesOf(given.head.fields, 'content-encoding')
  try {
    return (coding[0] === 'gzip' ? gunzipSync(given.body) : given.body).toString('utf8')
  } catch {
    return ''
  }
}

function parse(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown> | null
  } catch {
    return null
  }
}
