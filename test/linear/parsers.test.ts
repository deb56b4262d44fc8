import { BlockList } from 'node:net'
import cookie from '@fastify/cookie'
import { parseTraceParent } from '@opentelemetry/core'
import { fastify } from 'fastify'
import { expect, test } from 'vitest'
import { plainText } from '../../src/cli/cli.ts'
import { parseDuration } from '../../src/cli/options/values.ts'
import { parseIfMatch } from '../../src/console/keys/version-tag.ts'
import { localPath } from '../../src/console/platform/html/paths.ts'
import { readPerson } from '../../src/console/sign-in/claims.ts'
import { decodeSignInAttempt } from '../../src/console/sign-in/provider.ts'
import { normalizeCidrs } from '../../src/domain/form/address.ts'
import { plainPasted } from '../../src/domain/form/text.ts'
import { isKeyName } from '../../src/domain/key/key-fields.ts'
import { planExpiry } from '../../src/domain/key/key-life.ts'
import { isWorkspaceId, normalizeScopes } from '../../src/domain/key/key-record.ts'
import { holdsStrayKey } from '../../src/domain/key/secret.ts'
import { matchRoute, parseQuery } from '../../src/domain/route/route.ts'
import { decodeRecord } from '../../src/domain/wire.ts'
import { readBearerKey } from '../../src/gateway/credentials.ts'
import { chooseRequestId, readHead } from '../../src/gateway/request-head.ts'
import { buildForwarded } from '../../src/http/client-address.ts'
import { readBatch, readSingle } from '../../src/keys/tiers/key-service-store.ts'
import { readTraceId } from '../../src/observability/request-observation.ts'
import { isValidHead } from '../../src/upstream/pool/exchange.ts'
import { readRejection } from '../../src/upstream/respond.ts'
import {
  assessFreshness,
  parseDirectives,
  wantsFresher,
} from '../../src/upstream/response-cache/freshness.ts'
import { matchesValidators, toCachedResponse } from '../../src/upstream/response-cache/response-cache.ts'
import { compileResponsePolicy, privateCacheControl } from '../../src/upstream/response-policy.ts'
import { ROUTES, routeNamed, SIGNING_KEY } from '../domain/examples.ts'
import { readMessage } from '../support/messages.ts'
import { runs } from '../support/runs.ts'
import { growthBeyondLinear } from './growth.ts'

const app = fastify()
await app.register(cookie)
const policy = compileResponsePolicy(['Link', 'Content-Type', 'Cache-Control', 'Vary', 'ETag', 'Retry-After'])
const policyResult = (headers: Record<string, string>) =>
  policy(200, { 'content-type': 'application/json', ...headers })
const times = { requestedAtMs: 0, nowMs: 0, wallMs: 0 }
const fresh = (headers: Record<string, string>) =>
  assessFreshness({ 'cache-control': 'max-age=9', etag: '"7"', ...headers }, times)
const cachedWith = (etag: string) =>
  toCachedResponse({
    upstream: { etag, 'last-modified': 'Thu, 01 Jan 1970 00:00:00 GMT' },
    passing: {},
    body: Buffer.alloc(0),
    freshness: { ageMs: 0, lifetimeMs: 0 },
    requestedAtMs: 0,
    nowMs: 0,
  })
const known = (etag: string, text: string) => matchesValidators({ 'if-none-match': text }, cachedWith(etag))
const head = (...rawHeaders: string[]) => readHead({ httpVersion: '1.1', url: '/', rawHeaders })
const proxies = new BlockList()
proxies.addAddress('127.0.0.1')
const signed = { kind: 'signed', prefix: 'wsk_', signingKeys: [SIGNING_KEY] } as const
const any = { ...signed, kind: 'any' } as const
const opaque = { kind: 'opaque' } as const
const digest = '0'.repeat(64)

/** Every function that parses text of a client, an upstream, Redis, a key service, a provider or a user. */
const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  'Cache-Control of an upstream, made private': privateCacheControl,
  'Cache-Control of an upstream, for the cache': text => fresh({ 'cache-control': text }),
  'Cache-Control of a client': text => wantsFresher(parseDirectives(text), { ageMs: 0, freshForMs: 0 }),
  Expires: text => fresh({ 'cache-control': 'public', expires: text }),
  'Date and Age': text => fresh({ date: text, age: text }),
  Vary: text => fresh({ vary: text }),
  Link: text => policyResult({ link: text }),
  'Content-Type': text => policyResult({ 'content-type': text }),
  'Connection of an upstream': text => policyResult({ connection: text }),
  'Retry-After': text => policy(503, { 'retry-after': text }),
  'Content-Length and Transfer-Encoding of an upstream': text =>
    [{ 'content-length': text }, { 'transfer-encoding': text }].map(headers => isValidHead(200, headers, 1)),
  'the body of a rejection': text => readRejection(Buffer.from(text), undefined),
  'If-None-Match': text => known('"7"', text),
  'If-None-Match, where the tag is long, too': text => known(text, text),
  'If-Modified-Since': text => matchesValidators({ 'if-modified-since': text }, cachedWith('"7"')),
  Host: text => head('Host', text),
  'Content-Length, Transfer-Encoding and Expect': text =>
    head('Host', 'h', 'Content-Length', text, 'Transfer-Encoding', text, 'Expect', text),
  'X-Request-Id': text => [
    chooseRequestId(text),
    holdsStrayKey(text, { prefix: 'a', credentials: ['a, a, a,!'] }),
  ],
  'Authorization of a signed key': text => readBearerKey([text], signed),
  'Authorization of a key of either kind': text => readBearerKey([text], any),
  'Authorization of an opaque key': text => readBearerKey([text], opaque),
  'X-Forwarded-For, -Proto and -Host': text =>
    buildForwarded('127.0.0.1', proxies, {
      'x-forwarded-for': text,
      'x-forwarded-proto': text,
      'x-forwarded-host': text,
    }),
  'traceparent, for the log': text => readTraceId({ traceparent: text }),
  'traceparent, for a span': parseTraceParent,
  'the path': text => matchRoute(ROUTES, text),
  'the query': text => parseQuery(routeNamed('files'), text),
  'the cookies': text => app.parseCookie(text),
  'the cookie of a sign-in': text => decodeSignInAttempt(text, 0),
  'the address to return to': localPath,
  'the claims of a person': text =>
    readPerson(
      { sub: text, name: text, workspaces: text, admin: text, names: { [text]: text, ws_1: text } },
      {
        workspacesClaim: 'workspaces',
        workspaceNamesClaim: 'names',
        administratorClaim: 'admin',
        administratorValue: 'yes',
        viewerValue: 'no',
      },
    ),
  'If-Match': parseIfMatch,
  'a pasted key': plainPasted,
  'a text in a terminal': plainText,
  'a record in Redis': text => decodeRecord(text, digest, null),
  'a message on the channel': readMessage,
  'an answer of the key service': text => [
    readSingle({ status: 200, text }, digest),
    readBatch({ status: 200, text })(digest),
  ],
  'a workspace id': isWorkspaceId,
  'the name of a key': isKeyName,
  'the networks of a key': text => normalizeCidrs([text]),
  'the expiry of a key': text => planExpiry({ expiresAt: text }, 0),
  'the scopes of a key': text => normalizeScopes(text.split(' ')),
  'a span of time': parseDuration,
}

/** Beginnings of text that a parser continues after. */
const STARTS = ['', 'x', '"', '/', '<', '[', '{"a":', 'a="', 'Bearer wsk_', 'max-age=']
const PUMPS = [
  ...[
    ' ',
    '\t',
    ',',
    ';',
    '=',
    '"',
    '/',
    '\\',
    '<',
    '>',
    ':',
    '-',
    '.',
    '[',
    '{',
    '%',
    '&',
    '+',
    '*',
    '~',
    '_',
  ],
  ...[
    'a',
    '0',
    'Z',
    '\u00a0',
    '\u200d',
    '\u{1f44d}',
    'wsk_',
    'a=',
    'a="',
    'a, ',
    ', ',
    '", "',
    'W/"',
    '""',
    '" ',
    ' "',
  ],
  ...[
    '<a:',
    '</',
    '%25',
    '%2',
    '/a',
    '/..',
    '&limit=',
    '=1&',
    '\\"',
    '[[',
    '{"a":',
    '9,',
    'no-store,',
    '; ',
    'a;q=0,',
  ],
]
/** Most slow parsers show it where the end makes them fail late. */
const ENDS = runs(['!'], ['', '!', '"'])

test.each(Object.entries(PARSERS))('%s is read in linear time', (_name, parse) => {
  const read = (text: string) => {
    try {
      parse(text)
    } catch {
      // A rejection must be linear, too.
    }
  }
  const slow = STARTS.flatMap(start =>
    PUMPS.flatMap(pump =>
      ENDS.flatMap(end => {
        const growth = growthBeyondLinear(
          read,
          length => start + pump.repeat(Math.ceil(length / pump.length)) + end,
        )
        return growth === null ? [] : [{ start, pump, end, ...growth }]
      }),
    ),
  )
  expect(slow).toEqual([])
})
