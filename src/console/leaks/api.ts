import { type KeyObject, verify } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { finished } from 'node:stream'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { Type } from 'typebox'
import { findClientNetwork } from '../../domain/form/address.ts'
import { parseJson } from '../../domain/form/json.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { digestKey } from '../../domain/key/secret.ts'
import { KEY_IDENTIFIER, type ReportKey } from '../../domain/report-keys.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { ApiError } from '../platform/http/api-error.ts'
import type { Call } from '../platform/http/calls.ts'
import { fields } from '../platform/http/fields.ts'
import { readJsonText } from '../platform/http/read-bodies.ts'
import type { HandleTokens, ReportedToken, TokenOutcome } from './operations.ts'
import type { KeySource } from './public-keys.ts'

const GITHUB_LIMIT_BYTES = 1024 * 1024
/** Bodies received at once: anyone may send the identifier of a public key, which admits a body of 1 MiB. */
const MAX_BODIES = 32
const MAX_BODIES_PER_ADDRESS = 8
const MAX_TOKENS = 1000
const MAX_TOKEN_LENGTH = 4096
const MAX_TYPE_LENGTH = 200
const GITHUB = { actor: 'github-secret-scanning', name: 'GitHub secret scanning' }
const RETRY_SECONDS = '60'

interface GithubCallParts {
  readonly keys: Pick<KeySource, 'find'>
  readonly handleTokens: HandleTokens
  /** Counts a request without a good signature. @throws ApiError beyond the limit */
  readonly countRejection: (request: FastifyRequest) => Promise<void>
  readonly logger: ControlLogger
}

interface GithubToken extends ReportedToken {
  readonly type: string
}

/** GitHub's secret scanning partner protocol. The route's parser leaves the body as bytes: they are what is signed. */
export function githubCall(parts: GithubCallParts): Call {
  return {
    method: 'POST',
    url: '',
    operation: 'leaks',
    bodyLimitBytes: GITHUB_LIMIT_BYTES,
    admit: admitSigned(parts),
    handle: async request => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      const { isCurrent } = await verifyReport(parts, request, body)
      const tokens = readTokens(body)
      const from = { address: request.callerAddress, requestId: request.id }
      const outcomes = await parts.handleTokens('github', tokens, { ...GITHUB, ...from })
      const found = outcomes.filter(outcome => outcome !== 'unknown').length
      const line = { requestId: request.id, tokens: tokens.length, found, isCurrentKey: isCurrent }
      parts.logger.info(line, 'leak report from GitHub')
      return tokens.map((token, index) => feedbackOn(token, outcomes[index] ?? 'unknown'))
    },
  }
}

/** Without a signature by a known key the body is not read. */
function admitSigned({ keys, countRejection, logger }: GithubCallParts): onRequestHookHandler {
  const receiving = new Map<string, number>()
  let total = 0
  return async request => {
    const signed = readSignature(request.headers)
    if (signed === null || (await findKey(keys, signed.identifier, logger)) === null) {
      await countRejection(request)
      throw unsigned()
    }
    const network = findClientNetwork(request.callerAddress)
    const ofNetwork = receiving.get(network) ?? 0
    if (total >= MAX_BODIES || ofNetwork >= MAX_BODIES_PER_ADDRESS) {
      const text = 'Too many reports are being received; try again later'
      throw new ApiError('reports_unavailable', text, { 'retry-after': '1' })
    }
    total++
    receiving.set(network, ofNetwork + 1)
    finished(request.raw, () => {
      total--
      const left = (receiving.get(network) ?? 0) - 1
      if (left > 0) receiving.set(network, left)
      else receiving.delete(network)
    })
  }
}

function unsigned(): ApiError {
  return new ApiError('forbidden', 'The signature of this report is missing or does not match its body')
}

async function verifyReport(
  { keys, countRejection, logger }: GithubCallParts,
  request: FastifyRequest,
  body: Buffer,
): Promise<ReportKey> {
  const signed = readSignature(request.headers)
  const key = signed === null ? null : await findKey(keys, signed.identifier, logger)
  if (signed !== null && key !== null && isSignedBy(key.key, body, signed.signature)) return key
  await countRejection(request)
  throw unsigned()
}

async function findKey(
  keys: GithubCallParts['keys'],
  identifier: string,
  logger: ControlLogger,
): Promise<ReportKey | null> {
  try {
    return await keys.find(identifier)
  } catch (error) {
    logger.warn({ cause: describeError(error) }, 'leak report not verified: public keys unavailable')
    const text = 'The public keys that verify reports cannot be read; try again later'
    throw new ApiError('reports_unavailable', text, { 'retry-after': RETRY_SECONDS })
  }
}

/** Fields that this version does not know are ignored: GitHub may add some. */
function readTokens(body: Buffer): GithubToken[] {
  const parsed = parseJson(readJsonText(body))
  if (!Array.isArray(parsed)) throw new ApiError('invalid_request', 'The body must be a JSON array')
  if (parsed.length > MAX_TOKENS) {
    throw new ApiError('request_too_large', `A report may have ${MAX_TOKENS} tokens; send several`)
  }
  return parsed.map(entry => {
    const { token, type, url, source } = (entry ?? {}) as Record<string, unknown>
    const isToken = typeof token === 'string' && token !== '' && token.length <= MAX_TOKEN_LENGTH
    if (!isToken || typeof type !== 'string' || type.length > MAX_TYPE_LENGTH) {
      throw new ApiError('invalid_request', 'Each entry must have a token and a type')
    }
    return { token, type, url, source }
  })
}

/** By its hash: a secret is in no response but the one that issues it. */
function feedbackOn({ token, type }: GithubToken, outcome: TokenOutcome) {
  const label = outcome === 'unknown' ? 'false_positive' : 'true_positive'
  return { token_hash: digestKey(token), token_type: type, label }
}

/** An ECDSA P-256 signature in DER has at most 72 bytes. */
const SIGNATURE = /^[A-Za-z0-9+/]{1,100}={0,2}$/

interface ReportSignature {
  readonly identifier: string
  readonly signature: Buffer
}

/** @returns null if a header is missing, repeated or malformed: Node joins repeated ones with a comma */
export function readSignature(headers: IncomingHttpHeaders): ReportSignature | null {
  const identifier = headers['github-public-key-identifier']
  const signature = headers['github-public-key-signature']
  if (typeof identifier !== 'string' || !KEY_IDENTIFIER.test(identifier)) return null
  if (typeof signature !== 'string' || !SIGNATURE.test(signature)) return null
  return { identifier, signature: Buffer.from(signature, 'base64') }
}

/** ECDSA with SHA-256 over the bytes as received. */
export function isSignedBy(key: KeyObject, body: Buffer, signature: Buffer): boolean {
  return verify('sha256', body, { key, dsaEncoding: 'der' }, signature)
}

const REPORT_LIMIT_BYTES = 16 * 1024
const FINDER = { actor: 'leak-report', name: 'Leak report' }

const reportBody = fields({
  token: Type.String({ minLength: 1, maxLength: 4096, description: 'the key that was found' }),
  url: Type.Optional(Type.String({ maxLength: 4096, description: 'the address at which it was found' })),
})

/** A report of any client that has found a key: who holds a key may end it. */
export function reportCall({
  handleTokens,
  logger,
}: {
  readonly handleTokens: HandleTokens
  readonly logger: ControlLogger
}): Call {
  return {
    method: 'POST',
    url: '',
    operation: 'leak_report',
    schema: { body: reportBody },
    bodyLimitBytes: REPORT_LIMIT_BYTES,
    handle: async request => {
      // The route's schema has validated the body.
      const { token, url } = request.body as { readonly token: string; readonly url?: string }
      const finder = { ...FINDER, address: request.callerAddress, requestId: request.id }
      const [outcome] = await handleTokens('public', [{ token: plainPasted(token), url }], finder)
      if (outcome === 'unknown') return { label: 'false_positive' }
      logger.info({ requestId: request.id, outcome }, 'leak report of a key')
      return { label: 'true_positive' }
    },
  }
}
