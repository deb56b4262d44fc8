import { boolean, file, httpUrl, integer, milliseconds, oneOf, optional, section } from './schema-builders.ts'

/** Reports of leaked keys, which the console receives. */
export const leaks = section({
  enabled: boolean({
    default: false,
    description:
      'Receives reports of leaked keys on the console’s public port: `POST /leaks` from GitHub, `POST /leaks/report` from any client that has found a key',
  }),
  action: oneOf(['revoke', 'report'], {
    default: 'revoke',
    description:
      '`revoke`: a reported key is revoked at once. `report`: it keeps working; audit log, webhook and the page of the key show the report',
  }),
  reportsPerMinute: integer({
    default: 60,
    minimum: 1,
    maximum: 100_000,
    description:
      'Reports that one client address may send in a minute, at each console; further ones get 429. Reports with a good signature are not limited',
  }),
  github: section({
    keysUrl: {
      ...httpUrl('Where the console reads the public keys that sign GitHub’s reports'),
      default: 'https://api.github.com/meta/public_keys/secret_scanning',
    },
    keysFile: optional(
      file(
        'File with the content of that address, for a console that cannot reach it; replaces `leaks.github.keysUrl`',
      ),
    ),
    caFile: optional(file('Certificate authority of `leaks.github.keysUrl` (PEM)')),
    timeoutMs: milliseconds({
      default: 5000,
      minimum: 100,
      description: 'Time after which reading the public keys fails',
    }),
  }),
})
