import { plainText } from '../output/text.ts'

/** An answer that is not the console's. */
export interface ForeignAnswer {
  /** For people. */
  readonly message: string
  /** Whether the console may have received the request, and only its answer was replaced or cut. */
  readonly mayHaveReachedConsole: boolean
}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i
const CHECK = 'check --url or POSTERN_CONSOLE_URL'
const LET_PASS = `Let the admin API pass there, or ${CHECK}`
const ASK_OPERATOR = `Ask its operator, or ${CHECK}`

/** Explains an answer that is not in the form of the admin API, most often that of a proxy before the console. */
export function explainForeignAnswer(url: string, status: number, headers: Headers): ForeignAnswer {
  const cannot = `The console cannot be reached (${status} from ${url})`
  const signIn = `The server at ${url} is not a Postern console, or a proxy before it asks people to sign in`
  const foreign = (message: string, mayHaveReachedConsole = false) => ({ message, mayHaveReachedConsole })
  const type = headers.get('content-type') ?? 'no content type'
  if (status < 300 && JSON_TYPE.test(type)) {
    const message = `The response of the console at ${url} is incomplete: it is no valid JSON. Try again`
    return foreign(message, true)
  }
  if (status < 300) {
    const kind = plainText(type.split(';', 1)[0] ?? '')
    return foreign(`${signIn}: it answers with ${kind} in place of JSON. ${LET_PASS}`, true)
  }
  if (status < 400) {
    const to = placeOf(headers.get('location'), url)
    return foreign(`${signIn}: it redirects to ${to} (${status}). ${LET_PASS}`)
  }
  if (status >= 500) return foreign(`${cannot}: a proxy answers in its place. Try again later`, true)
  switch (status) {
    case 401:
    case 407:
      return foreign(`${cannot}: a proxy before it asks for credentials of its own. ${ASK_OPERATOR}`)
    case 403:
      return foreign(`${cannot}: a proxy before it does not let this request pass. ${ASK_OPERATOR}`)
    case 413:
      return foreign(`${cannot}: the request is too large for a proxy before it. ${ASK_OPERATOR}`)
    case 408:
    case 429: {
      const seconds = /^\d{1,5}$/.exec(headers.get('retry-after') ?? '')?.[0]
      const when = seconds === undefined ? 'later' : `in ${seconds} seconds`
      return foreign(`${cannot}: a proxy before it limits requests. Try again ${when}`)
    }
    default:
      return foreign(`The server at ${url} is not a Postern console (status ${status}): ${CHECK}`)
  }
}

/** Without the query, which may hold a token of the sign-in. */
function placeOf(location: string | null, url: string): string {
  const there = location === null ? null : URL.parse(location, url)
  if (there === null) return 'no valid address'
  return plainText(there.origin === 'null' ? there.protocol : there.origin + there.pathname)
}
