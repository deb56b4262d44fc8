import { mistakeIf, type Rule } from './rule.ts'

const ON_THIS_MACHINE = new Set(['localhost', '127.0.0.1', '[::1]'])

/** What signing in needs to be safe; each a sentence that says what to set. */
export const signInRules: readonly Rule[] = [
  {
    plane: 'console',
    about: ['console.publicUrl'],
    check: ({ console: { publicUrl } }) => [
      ...mistakeIf(
        publicUrl !== undefined && !isProtected(publicUrl),
        'console.publicUrl',
        `must be https: ${BECAUSE_OF_COOKIES}`,
      ),
      ...mistakeIf(
        publicUrl !== undefined && new URL(publicUrl).pathname !== '/',
        'console.publicUrl',
        'must be without a path',
      ),
    ],
  },
  {
    plane: 'console',
    about: ['console.oidc.issuer'],
    check: ({ console: { oidc } }) =>
      mistakeIf(
        oidc.issuer !== undefined && !isProtected(oidc.issuer),
        'console.oidc.issuer',
        'must be https (http only on this machine)',
      ),
  },
  {
    plane: 'console',
    about: ['console.oidc.issuer', 'console.oidc.clientId'],
    check: ({ console: { oidc } }) => [
      ...mistakeIf(
        oidc.issuer !== undefined && oidc.clientId === undefined,
        'console.oidc.clientId',
        'is required with console.oidc.issuer',
      ),
      ...mistakeIf(
        oidc.issuer === undefined && oidc.clientId !== undefined,
        'console.oidc.issuer',
        'is required with console.oidc.clientId: the provider that people sign in at',
      ),
    ],
  },
  {
    plane: 'console',
    about: ['console.oidc.issuer', 'console.publicUrl'],
    check: ({ console: { oidc, publicUrl } }) =>
      mistakeIf(
        oidc.issuer !== undefined && publicUrl === undefined,
        'console.publicUrl',
        'is required with console.oidc.issuer: where the provider sends people back to',
      ),
  },
  {
    plane: 'console',
    about: ['console.session.idleSeconds', 'console.session.absoluteSeconds'],
    check: ({ console: { session } }) =>
      mistakeIf(
        session.idleSeconds > session.absoluteSeconds,
        'console.session.idleSeconds',
        'is longer than console.session.absoluteSeconds',
      ),
  },
]

const BECAUSE_OF_COOKIES = 'over http anybody on the way could take a session (http only on this machine)'

function isProtected(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol === 'https:' || ON_THIS_MACHINE.has(hostname)
}
