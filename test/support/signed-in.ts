import type { AccountClaims } from 'oidc-provider'
import { onTestFinished } from 'vitest'
import type { AdminResponse } from './admin-response.ts'
import { BrowserDouble } from './browser-double.ts'
import { type ConsoleOptions, startConsole } from './console.ts'
import {
  CLIENT_ID,
  CLIENT_SECRET,
  IdentityProvider,
  type IdentityProviderOptions,
} from './identity-provider.ts'

export const CONSOLE = 'https://console.test'
/** Path that starts sign-in. */
export const START = '/sign-in/start'
export const SESSION_COOKIE = '__Host-postern-session'

export interface SignInOptions extends ConsoleOptions {
  readonly provider?: Partial<IdentityProviderOptions>
}

/** A real provider, a console that trusts it, and browsers. All stop when the running test ends. */
export async function startSignIn({ provider: how, ...options }: SignInOptions = {}) {
  const provider = await startProvider(how)
  const running = await startConsole(trusting(provider, options))
  const browser = () => new BrowserDouble(CONSOLE, running.app)
  const signedIn = (person: AccountClaims) => signIn(browser(), provider, person)
  return { ...running, provider, browser, signedIn }
}

export async function startProvider(
  options: Partial<IdentityProviderOptions> = {},
): Promise<IdentityProvider> {
  const provider = await IdentityProvider.started({ redirectUri: `${CONSOLE}/sign-in/callback`, ...options })
  onTestFinished(() => provider.stop())
  return provider
}

/** Options of a console that uses this provider. */
export function trusting(
  { issuer, isPublicClient }: Pick<IdentityProvider, 'issuer' | 'isPublicClient'>,
  options: ConsoleOptions = {},
): ConsoleOptions {
  const secret = isPublicClient ? {} : { clientSecret: CLIENT_SECRET }
  const oidc = { issuer, clientId: CLIENT_ID, ...secret, ...options.signIn?.oidc }
  return { ...options, signIn: { publicUrl: CONSOLE, ...options.signIn, oidc } }
}

export interface ApiAnswer {
  readonly status: number
  readonly body: AdminResponse
  readonly text: string
  readonly headers: Readonly<Record<string, string>>
}

/** A signed-in browser, and the requests that a script on the console's pages sends. */
export async function signIn(browser: BrowserDouble, provider: IdentityProvider, person: AccountClaims) {
  provider.person = person
  const page = await browser.visit(START)
  if (page.status !== 200) throw new Error(`Sign-in ended with ${page.status} at ${page.url}: ${page.text}`)
  const csrf = BrowserDouble.csrfTokenIn(page)
  const call = async (
    method: 'GET' | 'POST' | 'PUT' | 'PATCH',
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = { 'x-csrf-token': csrf },
  ): Promise<ApiAnswer> => {
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const own = method === 'GET' ? {} : { origin: browser.origin, 'sec-fetch-site': 'same-origin' }
    const payload = body === undefined ? undefined : JSON.stringify(body)
    const answer = await browser.send(method, `/admin/v1${path}`, { ...own, ...type, ...headers }, payload)
    return { ...answer, body: JSON.parse(answer.text) as AdminResponse }
  }
  return { browser, page, csrf, call }
}

export type SignedIn = Awaited<ReturnType<typeof signIn>>
