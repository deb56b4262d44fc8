import type { IncomingHttpHeaders } from 'node:http'
import type { Permit } from '../../domain/authorize.ts'
import { ASSERTION_HEADER } from '../../domain/header-names.ts'
import type { Forwarded } from '../../http/client-address.ts'
import type { UpstreamHeaders } from '../pool/exchange-parties.ts'

/** Fields by which the upstream chooses between 200 and 304 (RFC 9110, section 13.1). */
const VALIDATORS: readonly string[] = ['if-none-match', 'if-modified-since']
/** Differ for each request or caller, so with them in the key no two requests would match. */
const PER_CALLER_FIELDS: readonly string[] = [
  'x-request-id',
  'x-postern-key-id',
  ASSERTION_HEADER,
  'x-forwarded-for',
  'traceparent',
  'tracestate',
]
/** Cannot occur in a part of the key: Node's parser rejects it in values and targets, the key record in scopes. */
const SEPARATOR = '\n'

/**
 * Requests with the same cache key may get the same response. The key holds everything that the upstream receives,
 * except `PER_CALLER_FIELDS`. It includes host and protocol, because an upstream may build links from them.
 */
export type ComputeCacheKey = (permit: Permit, client: IncomingHttpHeaders, forwarded: Forwarded) => string

/** @param forwarded names of the client's headers that reach the upstream */
export function compileCacheKey(forwarded: readonly string[]): ComputeCacheKey {
  const names = forwarded
    .map(name => name.toLowerCase())
    .filter(name => !VALIDATORS.includes(name) && !PER_CALLER_FIELDS.includes(name))
  return ({ grant, upstreamTarget }, client, { proto, host }) => {
    let key = grant.workspaceId + SEPARATOR + upstreamTarget + SEPARATOR
    key += grant.scopes.join(' ') + SEPARATOR + proto + SEPARATOR + host
    for (const name of names) key += SEPARATOR + fieldText(client[name])
    return key
  }
}

/** Stands for the gateway's own validators in the key of a revalidation. Clients' validators have two separators. */
export const OWN_VALIDATORS = `${SEPARATOR}own`

/** Replaces the client's validators by the gateway's own. @param headers changed in place */
export function withValidators(
  headers: Record<string, string>,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  for (const name of VALIDATORS) delete headers[name]
  return Object.assign(headers, own)
}

/** The client's validators as part of the key, unless the gateway revalidates with its own. */
export function validatorKey(client: IncomingHttpHeaders): string {
  return VALIDATORS.map(name => SEPARATOR + fieldText(client[name])).join('')
}

/**
 * Whether a response fits every request with the same key: `Vary` names no field that the key leaves out. A field that
 * the gateway never forwards, such as a cookie, is the same for all.
 */
export function fitsKey({ vary }: UpstreamHeaders): boolean {
  if (vary === undefined) return true
  return !namesIn(vary).some(name => name === '*' || PER_CALLER_FIELDS.includes(name))
}

/** Whether `Vary` names a validator: such a response must not be reused for other validators. */
export function variesByValidator({ vary }: UpstreamHeaders): boolean {
  return vary !== undefined && namesIn(vary).some(name => VALIDATORS.includes(name))
}

function namesIn(vary: string | string[]): string[] {
  return String(vary)
    .toLowerCase()
    .split(',')
    .map(name => name.trim())
}

/** Distinguishes an empty field from a missing one. */
function fieldText(value: string | string[] | undefined): string {
  return value === undefined ? '' : `:${value}`
}
