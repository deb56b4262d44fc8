/** How far a change of a key has come, in the words that commands and the console's pages share. */

/** Of the gateways that report to the console. */
interface Confirmed {
  readonly known: number
  readonly confirmed: number
  /** Disconnected: these accept no key unverified. */
  readonly verifying: number
  readonly silent: readonly { readonly name: string }[]
}

export const NO_GATEWAY_KNOWN =
  'No gateway has reported to this console within the last minute, so none can confirm the change.'

/** Why a change is not announced yet. @param regions those that wait; none if the settings name no regions */
export function retryText(regions: readonly string[]): string {
  const where = regions.length === 0 ? '' : ` in ${regions.join(', ')}`
  return `The console cannot reach Redis${where} and keeps retrying. Disconnected gateways verify each key with the console before they accept it.`
}

export function confirmedText({ known, confirmed }: Confirmed): string {
  return `Confirmed by ${confirmed} of ${known} ${known === 1 ? 'gateway' : 'gateways'}`
}

/** @returns null if no gateway is disconnected */
export function verifyingText({ verifying }: Confirmed): string | null {
  if (verifying === 0) return null
  const checks = verifying === 1 ? 'is disconnected and checks' : 'are disconnected and check'
  return `${verifying} ${checks} each key with the console before accepting it`
}

interface RegionProgress {
  readonly announced: boolean
  /** Null if their confirmations are not known. */
  readonly gateways: Confirmed | null
}

/** Follows the name of a region. */
export function regionText({ announced, gateways }: RegionProgress): string {
  const parts = [announced ? 'announced' : 'not announced yet']
  if (gateways !== null) {
    const { known, confirmed, verifying, silent } = gateways
    parts.push(`confirmed by ${confirmed} of ${known}`)
    if (verifying > 0) parts.push(`${verifying} disconnected`)
    if (silent.length > 0) parts.push(`${silent.length} without confirmation`)
  }
  return parts.join(', ')
}

/**
 * Of gateways whose setting `region` is none of the console's: they count in no region.
 * @param inRegions the gateways of each region
 * @returns null if there are none
 */
export function elsewhereText({ known }: Confirmed, inRegions: readonly number[]): string | null {
  const count = inRegions.reduce((left, ofRegion) => left - ofRegion, known)
  if (count <= 0) return null
  const named = count === 1 ? '1 gateway names' : `${count} gateways name`
  return `${named} none of these regions: set region there as the console does`
}
