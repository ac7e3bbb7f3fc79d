// The handler of the bench: it takes a payment and answers with its number.
let number = 1;

exports.pay = (asked) => {
  for (const field of ["amount", "currency", "customer", "description", "reference"]) {
    if (asked[field] === undefined) throw new Error(`${field} is missing`);
  }
  const { amount, currency, customer, description, reference } = asked;
  const id = `pay_${String(number++).padStart(12, "0")}`;
  return { id, status: "succeeded", amount, currency, customer, description, reference };
};

exports.listen = (app) => {
  const server = app.listen(0, "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${server.address().port}`);
  });
};
