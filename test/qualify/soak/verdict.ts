/** What a client sent, as far as it determines the allowed responses. */
export type Asked =
  | { readonly kind: 'own'; readonly workspaceId: string; readonly requestId: string }
  | { readonly kind: 'self'; readonly workspaceId: string }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'forged' }
  | { readonly kind: 'unissued' }
  | { readonly kind: 'revoked' }
  | { readonly kind: 'bad_query' }

export interface Answered {
  readonly status: number
  /** The complete body as text. */
  readonly body: string
}

export type Verdict =
  | { readonly kind: 'right' }
  /** A failure that is allowed during a fault. */
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'wrong'; readonly why: string }

const RIGHT: Verdict = { kind: 'right' }

/** Rejections that must not depend on stores or upstream. */
const REFUSALS: Readonly<Record<'foreign' | 'forged' | 'unissued' | 'revoked' | 'bad_query', string>> = {
  foreign: '404 not_found',
  forged: '401 key_invalid',
  unissued: '401 key_invalid',
  revoked: '401 key_revoked',
  bad_query: '400 invalid_request',
}

/** During any fault no client gets another client's data, access it should not have, or a wrong rejection. */
export function judge(asked: Asked, { status, body }: Answered): Verdict {
  const json = parse(body)
  if (json === null) return wrong(`${status} with an incomplete body: ${body.slice(0, 80)}`)
  const said = status === 200 ? '200' : `${status} ${String(json['code'])}`
  switch (asked.kind) {
    case 'own':
      return status === 200 && json['workspace'] === asked.workspaceId && json['request'] === asked.requestId
        ? RIGHT
        : unlessHonest(status, said)
    case 'self':
      return status === 200 && json['workspaceId'] === asked.workspaceId ? RIGHT : unlessHonest(status, said)
    default:
      return said === REFUSALS[asked.kind] ? RIGHT : unlessHonest(status, said)
  }
}

/** Only a 5xx with the code of an unavailable part is allowed; a 500 would be a defect of the gateway. */
function unlessHonest(status: number, said: string): Verdict {
  return [502, 503, 504].includes(status) ? { kind: 'failed', why: said } : wrong(said)
}

function wrong(why: string): Verdict {
  return { kind: 'wrong', why }
}

function parse(body: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(body)
    return typeof json === 'object' && json !== null ? (json as Record<string, unknown>) : null
  } catch {
    return null
  }
}
