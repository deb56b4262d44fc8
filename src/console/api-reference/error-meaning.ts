import type { PublicError } from '../../domain/denial.ts'

/** What an error of the API means, and what a client does about it. Text between backticks is code. */
interface ErrorMeaning {
  readonly meaning: string
  readonly advice: string
}

const INVALID_REQUEST: ErrorMeaning = {
  meaning:
    'The request or a query parameter is not valid, which the text explains, or the request took too long to arrive',
  advice: 'Correct the request; after 408 send it again',
}
const REQUEST_TOO_LARGE: ErrorMeaning = {
  meaning: 'The URL is over 8 KiB, or the headers are over 16 KiB or more than 100',
  advice: 'Send a smaller request',
}

/** A test compares it with the table of docs/integrators.md. */
export const ERROR_MEANINGS: Readonly<Record<PublicError, ErrorMeaning>> = {
  '400 invalid_request': INVALID_REQUEST,
  '401 key_expired': { meaning: 'The key has expired', advice: 'Use a new key' },
  '401 key_invalid': { meaning: 'The key is unknown or mistyped', advice: 'Check the key and the base URL' },
  '401 key_missing': {
    meaning: 'There is no key, or more than one',
    advice: 'Send one `Authorization: Bearer …` header',
  },
  '401 key_revoked': { meaning: 'The key was revoked', advice: 'Use a new key; ask why it was revoked' },
  '401 key_suspended': {
    meaning: 'The key is suspended for now',
    advice: 'Ask why it was suspended; keep the key, which may be resumed',
  },
  '403 address_not_allowed': {
    meaning: 'The key must not be used from the address that the text names',
    advice: "Call from an allowed network, or have the key's networks changed",
  },
  '403 scope_missing': {
    meaning: 'The key lacks the scope that the text and `WWW-Authenticate` name',
    advice: 'Get a key with this scope',
  },
  '404 not_found': {
    meaning: "The path does not exist, or the workspace is not the key's own",
    advice: "Check the path; `GET /api/v1/auth` shows the key's workspace",
  },
  '405 method_not_allowed': { meaning: 'The method is not GET', advice: 'Use GET' },
  '408 invalid_request': INVALID_REQUEST,
  '414 request_too_large': REQUEST_TOO_LARGE,
  '417 invalid_request': {
    meaning: 'The request has an `Expect` field other than `100-continue`',
    advice: 'Leave the field out',
  },
  '429 rate_limited': { meaning: 'A rate limit is exceeded', advice: 'Wait for `Retry-After`' },
  '431 request_too_large': REQUEST_TOO_LARGE,
  '500 internal_error': { meaning: 'The gateway failed', advice: 'Report `X-Request-Id`' },
  '502 upstream_error': {
    meaning: 'The upstream returned an invalid response, or none',
    advice: 'Retry with growing waits',
  },
  '503 key_store_unavailable': {
    meaning: 'The key cannot be verified at the moment; it may be valid',
    advice: 'Wait for `Retry-After`; keep the key',
  },
  '503 overloaded': {
    meaning: 'Too many requests are in flight, or the gateway is shutting down',
    advice: 'Wait for `Retry-After`',
  },
  '503 upstream_unavailable': { meaning: 'The upstream is unavailable', advice: 'Wait for `Retry-After`' },
  '504 upstream_timeout': {
    meaning: 'The upstream did not respond in time',
    advice: 'Retry with growing waits',
  },
}

/** @returns null for an error that the upstream made itself */
export function findErrorMeaning(status: number, code: string): ErrorMeaning | null {
  const meanings: Readonly<Record<string, ErrorMeaning>> = ERROR_MEANINGS
  return meanings[`${status} ${code}`] ?? null
}
