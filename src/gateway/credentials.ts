import type { IncomingMessage } from 'node:http'
import { type OnReload, reloadable } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import type { Permit } from '../domain/authorize.ts'
import { type Denial, denied } from '../domain/denial.ts'
import {
  digestKey,
  findKeyPrefix,
  findStrayKeys,
  hasKeyForm,
  hasKeyMac,
  holdsStrayKey,
  importSigningSecret,
  isAuthorization,
  isUnsignedKey,
  type KeyFormat,
} from '../domain/key/secret.ts'
import type { ClientRequest } from '../upstream/client-request.ts'
import type { RequestHead } from './request-head.ts'

/**
 * The credential of a request. Later steps receive only its digest, and only if its form and MAC are valid: other
 * credentials cost no lookup.
 */
type Credential =
  /** @property isUnsigned it has no MAC: a client can invent any number of these, and each costs a lookup */
  | { readonly ok: true; readonly digest: string; readonly isUnsigned: boolean }
  | { readonly ok: false; readonly reason: 'key_missing' | 'key_malformed' }

/** A kind of credential: how it is read from a request and verified before the lookup. */
export interface CredentialScheme {
  /** Checks 4 and 5 of docs/concepts.md, as far as possible without a lookup. */
  read(head: Pick<RequestHead, 'authorization'>): Credential
  /** Prefix of all credentials, to find one in a wrong place; null if they have none. */
  readonly prefix: string | null
}

const SCHEME = 'bearer '

/**
 * API keys as bearer tokens. If a reload removes a signing secret, its keys become invalid at once.
 * @param isProven whether a key of this digest has passed the check of its MAC
 */
export function createBearerKeyScheme(
  config: Config,
  onReload: OnReload<Config>,
  isProven: (digest: string) => boolean,
): CredentialScheme {
  const format = reloadable(config, onReload, ({ keys }) => importKeyFormat(keys))
  return {
    read: ({ authorization }) => readBearerKey(authorization, format.value, isProven),
    get prefix() {
      return findKeyPrefix(format.value)
    },
  }
}

/**
 * The MAC keeps invented keys from the stores. A record in memory was found by the digest of the whole key, which proves it
 * as well, for less.
 * @param authorization all `Authorization` fields of the request (RFC 6750, section 2.1)
 */
export function readBearerKey(
  authorization: readonly string[],
  format: KeyFormat,
  isProven: (digest: string) => boolean = () => false,
): Credential {
  const [field] = authorization
  const key = field === undefined || authorization.length > 1 ? '' : readToken(field)
  if (key === '') return { ok: false, reason: 'key_missing' }
  if (!hasKeyForm(key, format)) return { ok: false, reason: 'key_malformed' }
  const digest = digestKey(key)
  if (!isProven(digest) && !hasKeyMac(key, format)) return { ok: false, reason: 'key_malformed' }
  return { ok: true, digest, isUnsigned: isUnsignedKey(key, format) }
}

/** Reads scheme, spaces, token (RFC 6750, section 2.1). @returns '' for any other form */
function readToken(field: string): string {
  if (field.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return ''
  let at = SCHEME.length
  while (field[at] === ' ') at++
  return field.slice(at)
}

function importKeyFormat(keys: Config['keys']): KeyFormat {
  if (keys.format === 'opaque') return { kind: 'opaque' }
  const signingKeys = keys.signingSecrets.map(secret => importSigningSecret(Buffer.from(secret, 'base64')))
  return { kind: keys.format, prefix: keys.prefix, signingKeys }
}

const KEY_IN_TARGET = denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })

const FORWARDED_FOR = 'x-forwarded-for'
/** What proxies write for an address that they do not know (RFC 7239, section 6.2). */
const UNKNOWN_HOP = 'unknown'

/**
 * Deletes from a request's headers each field except `Authorization` that holds a key, so that the key reaches no
 * upstream, log or trace. Call it before the headers are read.
 */
export function dropStrayKeys(request: IncomingMessage, prefix: string | null): void {
  const { rawHeaders, headers } = request
  const keys = findStrayKeys(rawHeaders, prefix)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (isAuthorization(rawHeaders[at]) || !holdsStrayKey(rawHeaders[at + 1] ?? '', keys)) continue
    const name = rawHeaders[at]?.toLowerCase() ?? ''
    if (name === FORWARDED_FOR) headers[name] = redactHops(String(headers[name] ?? ''), keys)
    else delete headers[name]
  }
}

/** Keeps what proxies have added: without the field, the client would seem to be the proxy itself. */
function redactHops(forwardedFor: string, keys: ReturnType<typeof findStrayKeys>): string {
  const hops = forwardedFor.split(',').map(hop => (holdsStrayKey(hop, keys) ? UNKNOWN_HOP : hop))
  const redacted = hops.join(',')
  // Credentials with a comma.
  return holdsStrayKey(redacted, keys) ? UNKNOWN_HOP : redacted
}

/** Upstreams write paths and queries to their logs, where a key must not appear. */
export function denyKeyInTarget(
  { prefix }: Pick<CredentialScheme, 'prefix'>,
  { message }: Pick<ClientRequest, 'message'>,
  { upstreamTarget }: Permit,
): Denial | null {
  return holdsStrayKey(upstreamTarget, findStrayKeys(message.rawHeaders, prefix)) ? KEY_IN_TARGET : null
}
