import { onTestFinished } from 'vitest'
import { BrowserDouble } from './browser-double.ts'
import { type ConsoleOptions, startConsole } from './console.ts'
import {
  CLIENT_ID,
  CLIENT_SECRET,
  IdentityProvider,
  type IdentityProviderOptions,
} from './identity-provider.ts'

export const CONSOLE = 'https://console.test'

/** A real provider, a console that trusts it, and a browser; all gone when the running test ends. */
export async function startSignIn(
  options: ConsoleOptions & {
    readonly provider?: Partial<IdentityProviderOptions>
    readonly origin?: string
  } = {},
) {
  const { provider: how, origin = CONSOLE, ...consoleOptions } = options
  const provider = await IdentityProvider.started({ redirectUri: `${origin}/sign-in/callback`, ...how })
  onTestFinished(() => provider.stop())
  const secret = how?.publicClient ? {} : { clientSecret: CLIENT_SECRET }
  const running = await startConsole({
    ...consoleOptions,
    signIn: {
      publicUrl: origin,
      ...consoleOptions.signIn,
      oidc: { issuer: provider.issuer, clientId: CLIENT_ID, ...secret, ...consoleOptions.signIn?.oidc },
    },
  })
  const browser = () => new BrowserDouble(origin, running.app)
  return { ...running, provider, browser }
}

/** The shortest way in. */
export const START = '/sign-in/start'
