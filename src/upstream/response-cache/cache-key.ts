import type { IncomingHttpHeaders } from 'node:http'
import type { Permit } from '../../domain/authorize.ts'
import type { Forwarded } from '../forwarded.ts'
import type { UpstreamHeaders } from '../response-policy.ts'

/** By which a client says what it has already: they decide between an answer and a 304 (RFC 9110, section 13.1). */
const VALIDATORS: readonly string[] = ['if-none-match', 'if-modified-since']
/** Sent to the upstream, and another with each request or caller: nothing would ever be shared with them in the question. */
const OF_ONE_CALLER: readonly string[] = [
  'x-request-id',
  'x-postern-key-id',
  'x-forwarded-for',
  'traceparent',
  'tracestate',
]
/** No value of a header, scope or target can hold it: the parser refuses it. */
const SEPARATOR = '\n'

/**
 * What the upstream is asked, as a text: who asks the same may be given the same answer. It holds all that the upstream is
 * told and that is not of one caller alone. Host and protocol are in it, because links may be made of them: with the
 * `Host` of one caller nobody else's answer is made.
 */
export type Question = (permit: Permit, client: IncomingHttpHeaders, forwarded: Forwarded) => string

/** @param forwarded names of the client's headers that go on */
export function compileQuestion(forwarded: readonly string[]): Question {
  const names = forwarded
    .map(name => name.toLowerCase())
    .filter(name => !VALIDATORS.includes(name) && !OF_ONE_CALLER.includes(name))
  return ({ grant, upstreamTarget }, client, { proto, host }) => {
    let question = grant.workspaceId + SEPARATOR + upstreamTarget + SEPARATOR
    question += grant.scopes.join(' ') + SEPARATOR + proto + SEPARATOR + host
    for (const name of names) question += SEPARATOR + fieldText(client[name])
    return question
  }
}

/** In place of the callers' validators where we ask with our own: no text of theirs, for it has a separator less. */
export const OWN_VALIDATORS = `${SEPARATOR}own`

/** The headers of a request with our validators in place of the caller's. */
export function withValidators(
  headers: Record<string, string>,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  for (const name of VALIDATORS) delete headers[name]
  return Object.assign(headers, own)
}

/** What the caller has already; part of what is asked, unless we ask with a validator of our own. */
export function validatorsOf(client: IncomingHttpHeaders): string {
  return VALIDATORS.map(name => SEPARATOR + fieldText(client[name])).join('')
}

/**
 * Whether an answer is one to the question, whoever asked it: `Vary` names nothing that the question leaves out. What the
 * gateway never sends, such as a cookie, is the same for all.
 */
export function isForAll({ vary }: UpstreamHeaders): boolean {
  if (vary === undefined) return true
  return !namesIn(vary).some(name => name === '*' || OF_ONE_CALLER.includes(name))
}

/** Nobody means it; but who says so would be given an answer to other validators. */
export function variesByValidator({ vary }: UpstreamHeaders): boolean {
  return vary !== undefined && namesIn(vary).some(name => VALIDATORS.includes(name))
}

function namesIn(vary: string | string[]): string[] {
  return String(vary)
    .toLowerCase()
    .split(',')
    .map(name => name.trim())
}

/** A field that is empty is another one than none. */
function fieldText(value: string | string[] | undefined): string {
  return value === undefined ? '' : `:${value}`
}
