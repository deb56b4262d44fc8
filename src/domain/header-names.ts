/** The header in which the upstream gets a signed assertion. */
export const ASSERTION_HEADER = 'x-postern-assertion'

/** Fields of one connection or of its framing (RFC 9110, section 7.6.1), which only undici sets. */
const CONNECTION_FIELDS = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
  'host',
]
/** Fields that the gateway sets on each request to the upstream. */
const OWN_FIELDS = [
  'x-postern-workspace-id',
  'x-postern-key-id',
  'x-postern-scopes',
  ASSERTION_HEADER,
  'x-request-id',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]
const RESERVED: ReadonlySet<string> = new Set([...CONNECTION_FIELDS, ...OWN_FIELDS])
/** Credentials never reach the upstream. */
const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization'])
/** Connection fields, the gateway's own fields, and fields that reveal software. */
const NEVER_TO_CLIENT: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'server',
  'x-powered-by',
  'set-cookie',
  'x-request-id',
])

/** CGI-like interfaces treat `_` and `.` as `-`, so such variants of a name count as the name. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/[_.]/g, '-')
}

/** Whether the operator may add a header of this name to each request to the upstream. */
export function mayBeFixed(name: string): boolean {
  return !RESERVED.has(plainName(name))
}

/** Whether a client's header of this name may reach the upstream. */
export function mayReachUpstream(name: string): boolean {
  return mayBeFixed(name) && !CREDENTIALS.has(plainName(name))
}

/** Whether a header of this name of the upstream may reach a client. */
export function mayReachClient(name: string): boolean {
  return !NEVER_TO_CLIENT.has(plainName(name))
}
