const MAX_LENGTH = 1024
/** Starts with one slash: two, or a slash and a backslash, would name another host. */
const LOCAL_PATH = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/
/** Returning there would loop, or sign out again. */
const SIGN_IN_PATH = /^\/sign-(?:in|out)(?:[/?]|$)/
/**
 * Query parameters that links of pages have. All others are fields of forms, such as a search: people paste keys and addresses
 * with secrets into them, and a return path gets into the URL of the sign-in page, its cookie and the browser's history.
 */
const LINK_PARAMETERS: ReadonlySet<string> = new Set(['state', 'scope', 'unused', 'sort', 'range'])
const LINK_VALUE = /^-?[\w:.]{1,40}$/
/** As long as the random part of a key, which was pasted in place of an id. */
const KEY_LIKE = /[0-9A-Za-z]{54}/
/** Query parameter of a form's page: the form was sent after its session had expired. */
export const EXPIRED = 'expired'

/**
 * Validates a local path from an untrusted URL, which rules out open redirects.
 * @returns null for anything a browser might resolve to another host
 */
export function localPath(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !LOCAL_PATH.test(text)) return null
  const { origin, pathname, search } = new URL(text, 'http://here.invalid')
  if (origin !== 'http://here.invalid' || pathname.startsWith('//') || SIGN_IN_PATH.test(pathname))
    return null
  return pathname + search
}

/** Where to return after signing in: a local path without the fields of forms, or the start page. */
export function returnPath(text: unknown): string {
  const path = localPath(text)
  if (path === null || KEY_LIKE.test(path.split('?', 1)[0] ?? '')) return '/'
  const { pathname, searchParams } = new URL(path, 'http://here.invalid')
  const kept = [...searchParams].filter(([name, value]) =>
    name === EXPIRED ? value === '1' : LINK_PARAMETERS.has(name) && LINK_VALUE.test(value),
  )
  return kept.length === 0 ? pathname : `${pathname}?${new URLSearchParams(kept)}`
}

/** The page of a form that was sent after its session had expired, without the fields of the form. */
export function formPage(url: string): string {
  const [path = '/'] = url.split('?', 1)
  return localPath(path) === null ? '/' : `${path}?${EXPIRED}=1`
}

/** @param then the local path to return to */
export function signInPath(then: string): string {
  return then === '/' ? '/sign-in' : `/sign-in?then=${encodeURIComponent(then)}`
}
