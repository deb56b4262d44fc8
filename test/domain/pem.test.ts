import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import { SettingError } from '../../src/domain/errors.ts'
import { certificatesIn, requireAuthorities, requirePair } from '../../src/domain/pem.ts'
import { makeCertificates } from '../support/certificates.ts'

const [one, other] = [await makeCertificates(), await makeCertificates()]
afterAll(() => {
  for (const certificates of [one, other]) certificates.remove()
})
const text = (file: string) => readFileSync(file, 'utf8')
const broken = '-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n'

describe('certificate files are checked before connections use them', () => {
  it('every certificate of a bundle is read', () => {
    expect(certificatesIn(`${text(one.caFile)}# and\n${text(other.caFile)}`)).toHaveLength(2)
  })

  it.each([
    ['an empty file', ''],
    ['a text', 'none'],
    ['a key', text(one.clientKeyFile)],
    ['an invalid certificate', broken],
  ])('%s instead of an authority is rejected, naming the setting', (_, pem) => {
    expect(() => requireAuthorities(pem, 'redis.caFile')).toThrow(
      'redis.caFile: the file contains no PEM certificate',
    )
    expect(() => requireAuthorities(text(one.caFile), 'redis.caFile')).not.toThrow()
  })

  it('a file without PEM is a mistake in the setting; a pair of which one file is replaced is none', () => {
    const certificate = text(one.clientCertFile)
    expect(() => requireAuthorities('none', 'x')).toThrow(SettingError)
    expect(() => requirePair(certificate, 'none', 'x')).toThrow(SettingError)
    expect(() => requirePair(broken, text(one.clientKeyFile), 'x')).toThrow(SettingError)
    expect(() => requirePair(certificate, text(other.clientKeyFile), 'x')).not.toThrow(SettingError)
  })

  it('a private key that does not match the certificate is rejected', () => {
    const certificate = text(one.clientCertFile)
    expect(() => requirePair(certificate, text(one.clientKeyFile), 'x')).not.toThrow()
    expect(() => requirePair(certificate, text(other.clientKeyFile), 'x')).toThrow(
      'x: the private key does not match',
    )
    expect(() => requirePair(certificate, 'none', 'x')).toThrow('x: the key file contains no PEM private key')
    expect(() => requirePair(broken, text(one.clientKeyFile), 'x')).toThrow(
      'x: the file contains no PEM certificate',
    )
  })
})
