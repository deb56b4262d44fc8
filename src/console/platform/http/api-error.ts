/** Error codes of the admin and internal APIs, with their status. */
const STATUS = {
  invalid_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  /** Not `not_found`: a gateway with a wrong URL must not take it for the answer to a lookup. */
  unknown_path: 404,
  /** Counts or refusals are not kept. */
  usage_disabled: 404,
  /** Workspaces may not have webhooks of their own. */
  webhooks_disabled: 404,
  method_not_allowed: 405,
  conflict: 409,
  /** If-Match names another version than the present one. */
  precondition_failed: 412,
  request_too_large: 413,
  unsupported_media_type: 415,
  /** The Host is not the console's. */
  misdirected_request: 421,
  /** The Idempotency-Key was used for something else. */
  idempotency_mismatch: 422,
  /** If-Match is missing. */
  precondition_required: 428,
  /** Too many failed attempts from this address. */
  rate_limited: 429,
  internal_error: 500,
  database_unavailable: 503,
  /** Only for reports of leaked keys: the signature cannot be checked, or too many reports are being handled. */
  reports_unavailable: 503,
  redis_unavailable: 503,
} as const

export type ApiErrorCode = keyof typeof STATUS

/** Asserted because `Object.keys` returns `string[]`; a constant object has no further keys. */
export const API_ERROR_CODES = Object.keys(STATUS) as ApiErrorCode[]

export function httpStatus(code: ApiErrorCode): number {
  return STATUS[code]
}

/** The id of a key or token of which it is unknown whether it was made or changed. */
interface MadeUnconfirmed {
  readonly keyId?: string
  readonly tokenId?: string
}

/** An error response. Its text is public: it never repeats what a caller may have sent by mistake. */
export class ApiError extends Error {
  readonly code: ApiErrorCode
  readonly headers: Readonly<Record<string, string>>
  /** The field, parameter or header that is wrong. */
  readonly field: string | undefined
  /** What may have been made all the same, by the name of its id. */
  readonly about: MadeUnconfirmed

  constructor(
    code: ApiErrorCode,
    text: string,
    headers: Readonly<Record<string, string>> = {},
    field?: string,
    about: MadeUnconfirmed = {},
  ) {
    super(text)
    this.code = code
    this.headers = headers
    this.field = field
    this.about = about
  }

  get status(): number {
    return httpStatus(this.code)
  }

  get body(): { code: string; error: string; field?: string } & MadeUnconfirmed {
    const { code, message, field, about } = this
    return { code, error: message, ...(field === undefined ? {} : { field }), ...about }
  }
}

/** @param field its name in our own schema: never a text that a caller may have sent by mistake */
export function invalidField(field: string, expected: string): ApiError {
  return new ApiError('invalid_request', `${field} must be ${expected}`, {}, field)
}
