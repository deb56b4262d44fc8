import type { DatabaseUnavailable } from './database-unavailable.ts'

/** What to do about a connection that is not admitted, by what the server, the driver or OpenSSL says. The first that fits counts. */
const ADVICE: readonly (readonly [says: RegExp, advice: string])[] = [
  [
    /The server does not support SSL connections/,
    'Turn on TLS at the server, or set sslmode=disable, which sends everything unencrypted',
  ],
  [
    /, no encryption\b|SSL required|SSL (?:connection )?is required/i,
    'The server may admit only TLS: set sslmode=verify-full, and sslrootcert unless its CA is a public one',
  ],
  [/no pg_hba\.conf entry/i, 'Add a line for this user, database and address to pg_hba.conf'],
  [
    /self[- ]signed|unable to (?:verify|get) (?:the |local )?(?:first |issuer )?certificate|unable to get issuer/i,
    'The certificate is not of a known CA: set sslrootcert to the file of the CA',
  ],
  [
    /altnames|does not match certificate/i,
    'The certificate is for another name: use a name that it has, or sslmode=verify-ca',
  ],
  [/certificate has expired/i, 'Renew the certificate of the server'],
  [
    /unsupported startup parameter(?:: options| in options)|command-line options/i,
    'A pooler refuses the parameter options: set it for the user (ALTER ROLE … SET …)',
  ],
  [
    /configuration parameter|invalid value for parameter|command-line argument/i,
    'Correct the parameter options',
  ],
  [/statement pooling mode/i, 'The pooler splits transactions: set its pool_mode to transaction or session'],
  [/database "[^"]*" does not exist|no such database/i, 'Create the database, or correct its name'],
  [
    /authentication failed|auth failed|role "[^"]*" does not exist|no such user|password must be a /i,
    'Correct the user or the password',
  ],
]

/** @returns null if the reason says enough */
export function adviceFor({ reason }: DatabaseUnavailable): string | null {
  return ADVICE.find(([says]) => says.test(reason))?.[1] ?? null
}
