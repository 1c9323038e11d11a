import { total } from "./cart.js"

const euros = (cents) => `${(cents / 100).toFixed(2)} €`

/** One line for the customer. */
export const receipt = (items) => `${items.length} kinds of fruit, ${euros(total(items))}`
