import { InvalidArgumentError } from 'commander'

/** Parses the argument of an option: a whole number from 1 to `most`, without sign or leading zero. */
export function wholeNumberTo(most: number): (text: string) => number {
  return text => {
    const count = Number(text)
    if (/^[1-9]\d*$/.test(text) && count <= most) return count
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}.`)
  }
}
