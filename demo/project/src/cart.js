/** The sum of a cart in cents. An item: `{ name, price, quantity }`; without a quantity it counts once. */
export const total = (items) => items.reduce((sum, item) => sum + item.price, 0)
