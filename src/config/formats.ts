import { isIP } from 'node:net'
import { percentDecoded } from '../domain/form/text.ts'
import { isScope, isWorkspaceId, OTHER_WORKSPACES } from '../domain/key/key-record.ts'
import { isPostgresAddress, problemOfPostgresAddress } from '../domain/postgres-address.ts'
import { isNoProxyEntry } from '../domain/proxy.ts'
import { REDIS_PROTOCOLS } from '../domain/redis-address.ts'

interface Format {
  readonly accepts: (text: string) => boolean
  /** Why a text is not accepted, where that helps more than `expectation`. Repeats no value. */
  readonly explainProblem?: (text: string) => string | null
  /** Completes the sentence "must be …". */
  readonly expectation: string
}

const HEADER_NAME = /^[A-Za-z0-9-]{1,128}$/
/** Credentials, fields of one connection (RFC 9110, section 7.6.1), and fields that reveal which software runs. */
const NEVER_FORWARDED = new Set([
  'authorization',
  'connection',
  'cookie',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'server',
  'set-cookie',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'x-powered-by',
])

/** The formats that settings use, by name. */
export const formats: Readonly<Record<string, Format>> = {
  'http-url': {
    accepts: isHttpUrl,
    explainProblem: explainPortZero,
    expectation:
      'an http: or https: address without user, query or fragment, such as http://127.0.0.1:8081 or https://api.example.com',
  },
  'host-and-port': {
    accepts: isHostAndPort,
    expectation: 'host:port, such as files-1.internal:8080, 10.0.0.5:8080 or [fd00::5]:8080',
  },
  'redis-url': {
    accepts: text => hasProtocol(text, REDIS_PROTOCOLS),
    explainProblem: explainPortZero,
    expectation:
      'a redis:, rediss:, valkey: or valkeys: address with a host; a path of a socket is not supported',
  },
  'redis-node': {
    accepts: isRedisNode,
    expectation:
      'host:port, or a redis:, rediss:, valkey: or valkeys: address of host and port alone (user and password are settings of their own)',
  },
  'database-url': {
    accepts: text =>
      /^sqlite:.+/.test(text) || (isPostgresAddress(text) && problemOfPostgresAddress(text) === null),
    explainProblem: text => (isPostgresAddress(text) ? problemOfPostgresAddress(text) : null),
    expectation: '`sqlite:FILE` or a postgres: address',
  },
  'proxy-url': {
    accepts: isProxyUrl,
    explainProblem: explainPortZero,
    expectation:
      'an http: or https: address of a proxy, such as http://proxy.internal:3128, with user and password percent-encoded',
  },
  'no-proxy-entry': {
    accepts: isNoProxyEntry,
    expectation: 'a name such as example.com or .example.com, an address, a network such as 10.0.0.0/8, or *',
  },
  cidr: { accepts: isCidr, expectation: 'an IP address or a CIDR such as 10.0.0.0/8' },
  scope: { accepts: isScope, expectation: '1 to 64 visible characters without quote or backslash' },
  'counted-workspace': {
    accepts: text => isWorkspaceId(text) && text !== OTHER_WORKSPACES,
    expectation: `a workspace id (not ${OTHER_WORKSPACES}, which stands for all others)`,
  },
  'signing-secret': {
    accepts: isSigningSecret,
    expectation: 'base64 of at least 32 bytes (openssl rand -base64 32 makes one)',
  },
  'bearer-token': {
    // Fits into a header in one piece, and is too long to guess.
    accepts: text => /^[\x21-\x2b\x2d-\x7e]{16,512}$/.test(text),
    expectation: 'a text of 16 to 512 visible characters without a comma',
  },
  'webhook-secret': {
    accepts: isWebhookSecret,
    expectation:
      'base64 of 24 to 64 bytes (openssl rand -base64 32 makes one), with or without the prefix whsec_',
  },
  'forwardable-header': {
    accepts: text =>
      HEADER_NAME.test(text) && !NEVER_FORWARDED.has(text.toLowerCase()) && !/^x-postern-/i.test(text),
    expectation:
      'the name of a header that may be copied (no credentials, no hop-by-hop field, no X-Postern- header)',
  },
  'path-template': {
    accepts: text =>
      /^(?:\/(?:[A-Za-z0-9._~-]+|\{[A-Za-z][A-Za-z0-9]*\}))+$/.test(text) && !/\/\.{1,2}(?:\/|$)/.test(text),
    expectation: 'a path such as /api/v1/things/{workspaceId}, of plain segments and {parameters}',
  },
}

/** Base64 in either alphabet, padded or not, of 32 bytes or more. */
function isSigningSecret(text: string): boolean {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) return false
  return Buffer.from(text, 'base64').length >= 32
}

/** The length is that of the Standard Webhooks specification. */
function isWebhookSecret(text: string): boolean {
  const [, base64] = /^(?:whsec_)?([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? []
  const { length } = Buffer.from(base64 ?? '', 'base64')
  return length >= 24 && length <= 64
}

function isHttpUrl(text: string): boolean {
  if (!hasProtocol(text, ['http:', 'https:'])) return false
  const url = new URL(text)
  return url.username === '' && url.password === '' && !/[?#]/.test(text)
}

function isProxyUrl(text: string): boolean {
  if (!hasProtocol(text, ['http:', 'https:']) || /[?#\s]/.test(text)) return false
  const { pathname, username, password } = new URL(text)
  return pathname === '/' && [username, password].every(part => percentDecoded(part) !== null)
}

function hasProtocol(text: string, protocols: readonly string[]): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, port } = new URL(text)
  return protocols.includes(protocol) && hostname !== '' && port !== '0'
}

/** A listener takes a free port for 0, but no address leads to it. */
function explainPortZero(text: string): string | null {
  return URL.canParse(text) && new URL(text).port === '0' ? 'must not name port 0' : null
}

function isHostAndPort(text: string): boolean {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|[A-Za-z0-9._-]+):(\d{1,5})$/.exec(text)
  if (match === null || (match[1] !== undefined && isIP(match[1]) !== 6)) return false
  return Number(match[2]) > 0 && Number(match[2]) < 65_536
}

function isRedisNode(text: string): boolean {
  const node = /^(?:(?:redis|valkey)s?:\/\/)?(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/.exec(
    text,
  )
  const port = Number(node?.[1] ?? 1)
  return node !== null && port > 0 && port < 65_536
}

/** A zone names an interface of one machine: no other address can be compared with it. */
function isCidr(text: string): boolean {
  if (text.includes('%')) return false
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}
